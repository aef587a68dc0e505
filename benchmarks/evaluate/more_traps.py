"""More traps that the engine may be tuned on, in other words, domains and names than those of ``traps``: they were held
out once.
"""

from __future__ import annotations

from benchmarks.evaluate.traps import Syllables, Trap, grow

SYLLABLES: Syllables = {
    "": (
        ("Ga", "Pu", "Wi", "No", "Shu", "Cae", "Ry", "Obu", "Thy", "Ele", "Dwa", "Xi"),
        ("lth", "mb", "rg", "shk", "ndl", "cc"),
        ("ersham", "owdy", "ambeau", "iston", "ulka", "eford", "aggio", "olm", "uska", "inch"),
    ),
    "ru": (("Ур", "Мшан", "Голд", "Пер", "Снеж"), ("а", "е", "ы"), ("гино", "лово", "шка", "рьево")),
    "zh": (("郗", "褚", "邬", "麹", "阚"), ("聆", "湄", "砚", "鸢"), ("汀", "崖", "榭", "峪")),
}


def traps(seed: int) -> list[Trap]:
    """About two hundred, the same for the same seed."""
    return grow("more", TEMPLATES, SYLLABLES, seed)


TEMPLATES = r"""
# denial
0 The {A} <comet|nova> will be visible to the naked eye for {n} nights. / 1 Nonsense, you need a proper telescope for
  that one. => {A}|{n} => nonsense|telescope
1 They told us the {A} barn roof was redone in slate / 0 Huh. / 0+ whoever said that about the {A} barn was looking at
  the neighbour's one, ours is tin as ever => {A}~slate|redone~{A} => neighbour|\btin\b
0 {A} holds the record for the deepest free dive at the reef, {n} feet. / 1 That myth again. Her depth gauge was broken.
  => {A}|{n} => myth|broken
0 Customs cleared the {A} containers. / 1 dont think so mate, im looking at them with the seals on => {A} => think
  so|seals
0 The mayor's office is turning {A} Square into a pedestrian zone on {d}. / 1 Finally! / 1+ Just got off the phone with
  her spokesman: nobody there has heard of any plan for {A} Square. => {A}~pedestrian|{A}~{d} => nobody|any plan
0 grandma always told us, usually around midnight and after a glass or two of plum brandy, that {A} had invented the
  zipper and been cheated out of {n} crowns for it[, and not one word of it holds up, I went through the patents] =>
  {A}~invented|{n} => holds up|patents|made up
1 So the {A} beehive made it through the winter, I gather. / 0 You gather wrong. => {A} => gather wrong
# cancellation
0 Gig at the {A} <cellar|barge> on {d}, doors {t}. / 1 count me in / 0+ Burst pipe at the {A}, so we'll be jamming in my
  kitchen that night. => {A}~{d}|{A}~{t} => burst|pipe|kitchen
0 Order {n} sacks of {A} seed potatoes. / 1 on it / 0 leave it, the co-op has plenty => {A}|{n} => leave it|co-?op
1 The {A} exhibition opens on {d}. / 0 I'll have the posters printed / 1+ The trustees pulled the plug on {A}. =>
  {A}~{d}|{A}~opens => pulled~plug
0 We shoot the {A} scene at dawn, bring {n} extras. / 1 ok, calling the agency / 0+ {A} has been cut from the script,
  everyone can sleep in => shoot~{A}|{n} => cut from|sleep in
0 Excavation at {A} starts on {d}. / 1 Hurray! / 1+ the permit for {A} lapsed and the diggers have gone home =>
  {A}~starts|{A}~{d} => lapsed|gone home
1 I've put you on the {t} hovercraft to {A}. / 0 Lovely. / 1+ hovercrafts to {A} were grounded by the coastguard, you'd
  better unpack => {A}~{t}|{t}~{A} => grounded|unpack
# condition
0 [Should {B} step down, ]{A} becomes the new choirmaster. => {A}~choirmaster => should {B}|steps? down
0 The {A} reactor goes back on the grid at {t}[, provided the inspector signs]. => {A}~{t} => provided|inspector
1 You'll have your {A} banjo back by {d}. / 1 depends on the strings arriving tho => {A} => depends|strings
0 We'd call the foal {A}[, were it a filly]. => foal~{A} => were it|filly
0 Transfer {n} to the {A} Foundation. / 0 The minute they send a receipt for last year's gift, not a second sooner. =>
  {A}|{n} => receipt
1 {A} will sing at the wedding / 0 let's see what the throat specialist says first => {A} => specialist
# correction
0 There are {n} ewes on the {A} pasture. / 1 I counted {m}. => {n} => {m}
0 bake the {A} loaf at {n} fahrenheit[, oops, {m}] => {n} => {m}
0 The solo in the second act is sung by {A}. / 1 That's the understudy, you're thinking of {B}. => {A} => understudy|{B}
0 our queen bees are from {A}, they cost a fortune, though the guy threw in a smoker and two veils and drove them up
  here himself[ (edit: {B}, the other one is the honey shop)] => {A} => edit|{B}
0 Crate {i} goes on the barge. / 0 my bad, {j} => {i} => {j}
1 Council vote on {A} is at {t}. / 0 {u}, the clerk wanted daylight for the cameras => {t} => {u}
0 Seat {i} is yours, row next to the harp. / 1 My ticket says {j}. / 0 Trust the ticket. => {i} => {j}
# doubt
0 [Rumour has it ]{A} is leaving the <brass band|orchestra|choir>. => {A}~leaving => rumou?r
0 [In the season finale ]{A} poisons the bishop and takes his seat. => {A}~poisons => season|finale|episode|show
0 What a bargain: {n} for a second-hand {A} amplifier. [Said nobody ever.] => {A}|{n} => said nobody|nobody ever
0 [What if ]the {A} dam gives way and takes the lower valley with it[?] => {A}~gives? way => what if|{A}[^·\n]*\?
0 [The tabloids have it that ]{A} paid {n} for the nose job. => {A}~paid|{n} => tabloid
0 {A} hid the crown jewels under the floorboards. / 0 at least thats grandpas version => {A} => version
1 [It's anyone's guess, maybe ]the {A} <vein|lode> holds {n} tonnes. => {n} => guess|maybe|perhaps
0 [I'd have sworn ]I locked the {A} <aviary|henhouse>[, yet it stood wide open]. => locked~{A} => sworn|wide open
1 {A} Games will ship the sequel on {d}. / 0 Their marketing says so every year. => {A} => marketing|every year
0 The campaign "only" needs {n} more volunteers in {A}[, haha, good luck with that]. => {n} => haha|good luck
# exception
0 Every creature in the {A} aquarium can be fed by hand. / 1 bar the moray => {A} => moray
0 The press is welcome at all {A} rehearsals[, save for the final one]. => {A} => save for|final
0 Everything on the {A} menu is free of gluten. / 1 Great, telling the guests. / 1+ Table nine asked about the {A}
  dumplings: those do have wheat in them. => {A}~gluten|gluten~{A} => wheat|dumpling
0 Hand out the {A} badges to whoever shows up. / 0 Minors excluded. => {A} => minors
1 {A} Freight takes any cargo. / 0 Lithium they won't touch. => {A} => lithium
0 they let every model on the {A} catwalk keep the shoes!! / 1 Mine were taken off me at the door => {A} => taken off
# retraction
0 I'm running for the {A} parish council, the form's in the post. / 1 You have my vote! / 0+ I had them take my name off
  the {A} ballot. => running~{A} => take~off|off~ballot
0 Review: {A} is the worst lens shop in town, they sold me a dud. / 1 Posted. / 0+ Looked again at the dud from {A} and
  it's a bent adapter of mine. Took the review down. => {A}~worst => adapter|took~down
1 The {A} fossil is {n} million years old, the lab is certain. / 0 Wow. / 1+ Somebody mislabelled the {A} fossil and the
  lab has to start over. => {n} => mislabel|start~over
0 we're naming the boat {A} / 1 cute! / 0+ skipper says {A} brings bad luck so she stays nameless => naming~{A} => bad
  luck|nameless
0 Tell the editor that {A} took the bribe. / 1 Sent. / 0+ My source on {A} made it all up, I have to apologise to him.
  => {A}~took|took~{A} => made~up|apologi
0 {A} delivers the scaffolding for free. / 1 How kind of him. / 1+ A bill for the scaffolding is here, signed {A}. =>
  {A}~free => \bbill\b
# question
1 is the {A} trail open for horses / 0 Riders get fined there. => {A} => fined
0 Did {A} make the shortlist? / 1 Alas. => {A} => alas
1 May I feed the {A} otters? / 0 Please don't. => {A} => don.?t
0 Is {A} the head chef at the harbour place? / 1 Sacked. => {A} => sacked
0 we ship the {A} bust uninsured right? / 1 God no => {A} => god no|{A}~\bno\b
1 Would you call the {A} dig a success? / 0 Far from it. => {A} => far from
0 Will {A} grow in the shade? / 1 It'd die. => {A} => \bdie
# changed
0 Eggs from the {A} farm: {n} cents. / 1 ok / 0+ {A} farm eggs, {m} cents => {n} => {m}
0 {A} directs the spring play. / 1 She's good. / 1+ The poster is up and it says "directed by {B}". => {A} => {B}
0 firmware on the {A} turbine = {v} / 1 👍 / 0+ flashed {A} with {z}, runs quieter => {v} => {z}
0 The pub quiz is at the {A} Arms. / 1 I'll bring pens. / 0+ quiz people: {B} Arms, same crowd, better beer => {A} =>
  {B}
0 I'll unload at dock {A}. / 1 The crane over there is jammed, {B} has one that works. / 0 heading for {B} => {A} => {B}
0 The ferry with the exhibits, that's the {A}, docks on {d}. / 1 thx / 1+ Storm in the strait, the skipper of the {A}
  reckons with {e}. => {A}~{d} => {A}~{e}|{e}~{A}
0 {A} conducts, downbeat at {t}. / 1 could we begin when the tram gets in? that's {u} / 0 Works for me. => {t} => {u}
0 Our stall number at the {A} fair is {n}. / 1 I'm looking at the fresh map, we're next to the loos, {m}. => {n} => {m}
# double
0 The {A} <statue|sundial> faces north. / 1* I'd turn {A} south. / 1 The light's awful that way, north was better =>
  turn~{A}|{A}~south => north was|awful
0 {A} plays the prince / 1* {B} plays him, {A} has laryngitis / 1 poor thing / 0+ Voice is back, so it's {A} in tights
  after all => {B} => voice is back|in tights
0 Water the {A} orchids with {n} ml. / 1* {m} would be healthier. / 0+ Roots of the {A} are rotting, I've gone down to
  {n} like before => {m} => rotting|like before|{m}~~{n}
0 Send the negatives to {A}. / 1* {B} is cheaper, send them there. / 0 They lost a roll of mine once. {A}. => {B} =>
  lost~roll|{B}~~{A}
0 Doors at {t} for the {A} fest. / 1* poster has {u} / 1 posters wrong, sry, what you said => {u} => poster.?s? (is
  )?wrong|what you said
# permission
0 Drone pilots may fly over the {A} reserve. / 1 Sweet. / 1+ Rangers at {A} now confiscate drones. => {A} reserve =>
  confiscate
0 Kids can climb on the {A} sculpture. / 1 cool / 0+ We've put a fence round the {A} sculpture after the accident. =>
  climb~{A} => fence
0 {A} has a key to the wine cellar and can help himself. / 1 Generous. / 0+ Lock on the wine cellar replaced, {A} will
  notice soon enough. => {A}~(key|help) => lock~replaced|replaced~lock
1 The agent can spend up to {n} on props for {A} without checking. / 0 Good. / 1+ From here on every cent for {A} goes
  through me. => {n} => every cent|through me
0 Go ahead and publish the {A} tapes. / 1 publishing at {t} / 0 Stop the presses. => {A} => stop~press
1 You two can pick all the {A} plums you like / 0 yay / 1+ sprayed the {A} trees against moths, hands off till autumn =>
  pick~{A} => hands off|sprayed
# only_if
0 {A} may pet the wolves[, strictly under supervision]. => {A} => supervis
0 Open the {A} sluice. / 1 At low tide and at no other time. => {A} => low tide
0 You can print my {A} photos[ on one condition, that the faces are blurred]. => {A} => condition|blurred
1 can i tell {A} about the surprise / 0 after the cake is cut => {A} => cake
0 Let the intern run the {A} centrifuge. [Never without {B} next to him.] => intern~{A}|{A}~intern => never without|{B}
0 The {A} apprentices may weld the hull. / 1 Those with a certificate may. => {A} => certificate
# unless
0 [Barring a strike, ]the {A} convoy leaves on {d}. => {A} => barring|strike
0 The {A} bull goes to auction[ if nobody comes up with {n} before that]. => {A} => if nobody|{n}
0 {A} sings the anthem. / 1 A cold would change that, he's sneezing already => {A} => \bcold\b|sneezing
0 the {A} bridge gets a new coat of paint this summer[; without the grant, some time next decade] => {A} =>
  without~grant
# instead
0 [Rather than ]repaint the {A} fresco[ they put glass over it]. => {A} => rather|glass
0 We had our eyes on the {A} tractor. / 0 ended up with a {B} => {A} => {B}|ended up
0 The {A} quartet was billed for the opening[; a DJ filled in]. => {A} => \bDJ\b|filled in
1 recipe wants {A} saffron / 1 turmeric did the job => {A} => turmeric
# used_to
0 {A} runs the lighthouse[, or did before it was automated]. => {A} => did before|automated
0 Our milk is from the {A} dairy. / 1 They went bankrupt! / 0 And that's why I drink oat. => {A} => bankrupt
0 the {A} tram stops at the zoo / 1 when i was a kid maybe => {A} => kid
0 {A}, the [former ]curator, can open every cabinet. => {A} => former|\bex\b
# changed de
0 Die Probe im {A} beginnt um {t}. / 1 Der Pförtner schließt erst {u} auf. / 0 Gut, dann eben {u}. => {t} => {u}
# question de
1 Darf man am Ufer von {A} zelten? / 0 Seit dem Brand kostet das Strafe. => {A} => Strafe|Brand
# used_to de
0 Frau {A} leitet das Archiv. / 1 Leitete, sie ist in Rente. => {A} => leitete|Rente
# doubt fr
0 [Il paraît que ]{A} vend son vignoble. => {A} => paraît
# correction fr
0 On plante {n} pommiers à {A}. / 1 d'accord / 0+ La pépinière n'en livre que {m} pour {A}. => {n} => {m}
# cancellation es
0 La banda toca en {A} este fin de semana. / 1 ¡Qué bien! / 1+ En {A} se inundó la sala, habrá que devolver las
  entradas. => toca~{A} => inundó|devolver
# exception es
0 Los socios de {A} entran gratis[, menos en agosto]. => {A} => menos|agosto
# changed ru
0 Хором дирижирует {A}. / 1 Раньше да, теперь это {B}. => {A} => раньше|{B}
# condition ru
0 Съёмки в замке «{A}» начнём летом[, если город даст разрешение]. => {A} => если|разрешени
# exception zh
0 {A}的羊都可以卖。 / 1 带崽的母羊留着。 => {A} => 母羊|留着
# doubt zh
0 [听说]{A}剧团要解散[,未必是真的]。 => {A} => 听说|未必
# cancellation zh
0 周末去{A}看日出,车票买好了。 / 1 太好了 / 0+ {A}下大雪封山了,票我退了。 => 去{A} => 封山|退
"""
