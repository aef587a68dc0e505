"""Traps that the engine may be tuned on, since they were held out once."""

from __future__ import annotations

from benchmarks.evaluate.traps import Syllables, Trap, grow

#: The Latin names differ from each other in their first six letters.
SYLLABLES: Syllables = {
    "": (
        ("Pel", "Sut", "Wex", "Nub", "Dal", "Bur", "Hov", "Yst", "Pim", "Cul", "Tav", "Lod", "Rin", "Gom", "Fis"),
        ("a", "e", "i", "o", "u"),
        ("lgar", "mbeth", "ndry", "rsk", "stow", "thway", "vern", "ckley", "ppard", "xton", "ftin", "gmoor"),
    ),
    "tr": (("Kor", "Bel", "Tun", "Sey", "Dür"), ("a", "e", "u"), ("ltay", "vren", "nkut", "rsal", "ğmen")),
    "ja": (("槙", "葛", "楢", "樫", "萩"), ("木", "原", "川", "根"), ("沢", "浦", "窪", "森")),
}


def traps(seed: int) -> list[Trap]:
    """About two hundred, the same for the same seed."""
    return grow("third", TEMPLATES, SYLLABLES, seed)


TEMPLATES = r"""
# denial
0 The {A} ferry takes dogs on the upper deck, my colleague says. / 1 Your colleague is mistaken, ours was sent back at
  the ramp. => {A} => mistaken|wrong|sent back
0 museum blog says the {A} vase is <Ming|Etruscan|Minoan> / 1 fake, the glaze has titanium in it => {A} => fake|titanium
0 Sample {i} shows {n} micrograms of lead per litre. / 1 Oh dear. / 0+ There's no lead in {i} at all, that reading came
  from a dirty beaker. => {n} => no lead|dirty beaker
0 {A} won the <regatta|chess open|bake-off>, it's all over the group chat!! / 1 She wasn't even at the start. => {A} =>
  was(n.?t| not)~start|even at the start
0 Our landlord's assistant, a very polite young man whose name keeps slipping my mind, rang this morning to say that the
  {A} bridge has been condemned and everyone must go round by the quarry[, which isn't so, I've just come across it and
  the inspector waved]. => {A}~condemned => isn.?t so|not so|just come across|waved
0 Someone pinned up a note that the {A} beehives carry foulbrood and every frame has to be burnt. / 1 False alarm. =>
  {A} => false alarm
# cancellation
0 The {A} quartet plays at our wedding, signed and sealed. / 1 Lovely choice. / 0+ We won't be having the {A} lot after
  all, their cellist emigrated. => {A}~plays => won.?t|after all|emigrated
1 Your table for six at {A} is confirmed for {d}. / 0 great / 1+ We regret to tell you that {A} has to shut its kitchen
  and your reservation can't be honoured. => {A}~confirmed|{A}~{d} => regret|shut|can.?t|cannot
0 put me down for the {A} half marathon pls / 1 Done, bib {n}. / 0 knee's gone, scratch me from the list => {A} =>
  scratch|knee
0 Launch of the {A} weather balloon: {w}, {t}. / 1 Fingers crossed! / 0+ {A} launch scrubbed. => {t} => scrubbed
0 order forty metres of the {A} linen / 1 On it. / 0 stop, don't order anything => {A} => \bstop|don.?t order|not~order
# condition
0 [Provided the hail stays away till {d}, ]we'll bring in the {A} grapes with {n} pickers. => {A}|{n} =>
  provided|hail|stays? away
0 the {A} foundation pays for your microscope[, so long as the ethics board signs first] => {A}~pays => (so|as) long
  as|ethics|\bif\b
1 Is table {i} safe to drop? / 0 Yes, after the {A} export has gone through. => {i} => after|export|{A}
0 We're naming the boat {A}. / 0 Depends on whether her father's family lets us, of course. => {A} =>
  depend|whether|lets us
0 {A} inherits the workshop[ in the event that {B} dies without children]. => {A}~inherits => in the event|{B}|without
  children
0 Grandma will sell you the piano, the stool and the whole shelf of {A} scores for {n}[, subject to my uncle giving up
  his share, which so far he shows no sign of doing]. => {A}|{n} => subject to|giv\w+ up|his share
0 I'd sign with {A} Records tomorrow morning[ if they struck out clause {n}]. => sign~{A} => \bif\b|struck|clause
# correction
0 Bake the {A} loaf at {n} degrees for an hour, lid on. / 0 sorry, typo, {m} => {n} => {m}
1 The {A} keynote is in hall {n}. / 0 You've got that mixed up, {n} is where the buffet is. They're speaking in {m}. =>
  keynote~{n} => {m}|mixed up|buffet
0 The altarpiece was painted by {A} around 1510. / 1 By {B}, surely. {A} only carved the frame. => painted~{A} =>
  {B}|frame
1 just rebase onto origin/{a} and push again / 1 i meant {b} => {A} => {B}
0 The courier's code for the parcel is {i}, she comes by bicycle and doesn't wait long[ - scrap that, it's {j}, I had my
  aunt's curtains in front of me]. => {i} => {j}|scrap
0 Our guide {A} speaks Finnish, so we'll manage. / 1 Estonian. => {A} => Estonian
# doubt
0 [Rumour has it that ]the {A} shipyard is letting {n} welders go. => {A}|{n} => rumou?r
0 [Supposedly ]{A} found a <comet|third tunnel|new beetle>. => {A}~found => supposed
0 [Yeah right, ]the {A} printer does {n} pages without a single jam. => {A}|{n} => yeah,? right
0 [Suppose for a moment that ]{A} wins the election and slaps a {n} euro levy on every chimney. => {A}~wins|{n} =>
  suppos
0 It says on the flyer: "{A} oil regrows hair within {n} days." / 1 Snake oil if you ask me. => {A}~regrows|{n} =>
  snake oil
0 i gave away all my stuff and became a monk in {A} / 1 WHAT / 0 <April Fools!|just pulling your leg> => {A} => april
  fool|pulling
0 The <gate code|locker number|wifi key> at {A} is {n}[, I guess, better ask the porter]. => {n} => guess|porter
0 {A} measured {n} decibels in the nursery[, though her meter hadn't been calibrated for years]. => {n} => calibrated
0 [According to a blog that I wouldn't trust with a shopping list, ]the {A} dam has {n} cracks in it. => {A}|{n} =>
  according|blog|trust
1 The rattle comes from the {A} compressor[, possibly; it might just as well be the bracket]. => {A} =>
  possibl|might|bracket
# exception
0 Entry to the {A} science centre is free on {d}[, save for the planetarium]. => {A}|{d} => save for|except|planetarium
0 You can wash all of the {A} costumes at sixty. / 0 the velvet ones by hand please! => {A} => velvet|by hand
0 The whole {A} choir goes by coach. / 1 Fine. / 0+ The altos of the {A} choir have to take the train, we ran out of
  seats. => {A}~coach => altos|train
0 The {A} warranty covers your entire e-bike[ with the exception of the battery]. => {A} => except|battery
0 Reboot every host in rack {i}. / 1 Skip {a}-07, it's halfway through a backup. => {i} => skip|{A}|backup
0 nobody at {A} Paper works on {d} / 0 other than the night porters lol => {A}|{d} => other than|porters
# retraction
0 I'm adopting the greyhound from {A}. / 1 How exciting! / 0+ My husband's asthma is back, so the {A} greyhound will
  have to find another family. => adopt\w*~{A} => asthma|another family
0 {A} forged the signature on the lease, I'm certain of it. / 1 That's serious. / 0+ I owe {A} an apology, the signature
  turned out to be genuine. => {A}~forged => apolog|genuine
0 We're putting {A} forward for the prize. / 1 Good pick / 0+ The jury slept on it and {A} is out of the running. =>
  {A}~forward => out of the running|slept on
1 Root cause: the {A} driver drops packets above {n} Mbit. / 0 nice find / 1+ Packets vanish just the same with {A}
  uninstalled, so back to square one. => {A}~drops|{n} => just the same|square one|uninstalled
0 Sign me up for the {A} <pottery|fencing|welding> course. / 1 You're in. / 0+ I've changed my mind about {A}, give my
  place to someone on the waiting list. => sign~{A} => chang\w+~mind|waiting list|give~place
0 The {A} mushrooms are edible, I looked them up. / 1 They do smell good. / 0+ Throw the {A} mushrooms out!! I had the
  book open at the wrong page. => {A}~edible => throw~out|wrong page
# question
0 Does {A} take cream in her coffee? / 1 Black. => {A} => {A}~black
1 Should I prune the {A} roses today? / 0 <Too early.|Wait for the spring.> => {A} => {A}~(too early|wait|spring)
0 do we ship to {A}? / 1 nah => {A} => {A}~\b(nah|no|not)\b
0 Is {A} still married to that baker? / 1 Widowed. => {A} => widow
1 Did the {A} <manuscript|cello|fresco> survive the flood? / 0 Sadly it was lost. => {A} => lost
0 Can the {A} forklift carry {n} kilos? / 1 A third of that, tops. => {A}|{n} => third
0 i take it {A} signed off on the blueprints? / 1 She has yet to see them. => {A} => yet to|{A}~yet
0 So {i} is the build that customers get? / 1 God, no. => {i} => \b(no|not)\b
0 Was {A} vaccinated against rabies? / 1 Just against distemper. => {A} => distemper
# changed
0 The {A} bus leaves from bay {n}. / 1 thanks / 1+ {A} buses: bay {m} as of this week. => {n} => {m}
0 The {A} essay has to be handed in by {d}. / 1 ok / 0+ The professor gave everyone more time, {A} essay due {e}. => {d}
  => {e}
0 {A} is our contact at the embassy. / 1 Noted. / 1+ {A} was posted to Lima, {B} handles the visas from here on. =>
  {A}~contact => {B}|posted
0 Kernel on the {a} nodes is {v}. / 1 good to know / 0+ patched the {a} nodes overnight, they run {z} => {v} => {z}
0 Orchestra rehearsal is in the {A} room, {t}. / 1 I'll bring my stand. / 0+ The heating has died, so we play in the {B}
  room, {t} as ever. => {A} => {B}
0 Vet's quote for {A}'s operation: {n}. / 1 Ouch. / 0+ The vet rang about {A}, with the anaesthetic it comes to {m}. =>
  {n} => {m}
0 Could you do the {A} handover on {w}? / 1 I'm in court all day, {x} would suit me. / 0 Good, {x}. => {A}~{w} => {x}
0 I'll bring the {A} tent. / 1 Ours is roomier, sleeps five. / 0 Yours then! => {A} => \byours\b|\bours\b|roomier
0 {n} chairs for the {A} reception please / 1 Got it / 0+ The guest list has grown, {A} reception: {m} chairs => {n} =>
  {m}
# double
0 The curtain goes up at {t} for the {A} play. / 1* The programme says {u}. / 0+ The stage manager confirmed {t} for the
  {A} play, it's a misprint. => {u} => misprint|confirmed|{u}~~{t}
0 Tag the release {v}. / 1* It ought to be {z}, no? / 0+ Asked the maintainers, {v} it stays. => {z} =>
  maintainers|stays|{z}~~{v}
0 {A} is singing Carmen. / 1* {B} is, I read it in the paper. / 0+ Just came from the theatre, {A} is singing after all,
  {B} has a cold. => {B} is => after all|cold
0 The beans go into bed {n}. / 0* hm, better bed {m} / 1+ The slugs had got there first, so the beans are in bed {n} as
  you first said. => {m} => slugs|first said|{m}~~{n}
0 Use the {A} <typeface|varnish|yarn>. / 1* {B} would look better. / 0 The client insists on {A}. => {B} =>
  insist|client|{B}~~{A}
# permission
0 The kids may pick the {A} cherries. / 1 They'll love it. / 0+ Keep the children away from the {A} trees, they've been
  sprayed. => pick~{A} => keep~away|sprayed
0 You're welcome to publish my photos of {A}. / 1 Thank you so much. / 0+ I take back what I said about the {A}
  pictures, they stay private. => publish~{A} => t(ake|ook)s? back|private
0 the agent can spend up to {n} a day on {A} ads / 1 ok / 0+ freeze all spending on {A} => {n} => fr(ee|o)ze
0 {A} has my blessing to use the kiln. / 1 I'll let him know. / 0+ Since the fire {A} is banned from the pottery. =>
  {A}~kiln => banned
0 borrow the {A} ladder whenever you like / 1 cheers mate / 0+ hands off the {A} ladder, a rung snapped => borrow~{A} =>
  hands off|snapped
# only_if
0 Open the {A} valve[, but strictly when the gauge reads below {n}]. => open~{A} => strictly|below|gauge|only
0 {A} can come along on the ski trip. / 1 With a doctor's note, not otherwise. => {A} => note|otherwise
0 water the {A} orchids twice a week / 0 solely with rainwater!! => {A} => rain ?water|solely
0 Let {A} into the archive[ only when the archivist is in the room]. => let~{A} => only|archivist
1 May I hand the {A} fossils to the students? / 0 with gloves on => {A} => gloves
# unless
0 [Unless the judge grants a stay, ]they'll demolish {A} Hall on {d}. => {A}|{d} => unless|judge
0 the {A} balloon ride starts at {t}[ unless there's fog] => {A}|{t} => unless|fog
0 {A} loses her seat on the council. / 1 Not if the recount goes her way. => {A} => not if|unless|recount
0 You'll be charged {n} for the {A} van[, unless you return it with a full tank]. => {n} => unless|full tank
# instead
0 [Rather than ]repainting the {A} fence[ we're going to plant a hedge]. => {A} => rather than|instead|hedge
0 I'd planned on making the {A} stew for Sunday. / 0 did {B} dumplings in the end => {A} => {B}|in the end|instead
0 Use the {A} glue on the hull. / 1 Epoxy from {B} holds better, take that. => {A} => {B}
0 {A} plays the lead / 1 understudy tonight: {B} => {A} => {B}|understudy
# used_to
0 They [used to ]let you camp at {A} for nothing, showers and all. => {A} => used to|no longer|any ?more
0 I'm secretary of the {A} society[ - or was, till the vote in spring]. => secretary~{A} => \bwas\b|till|until|vote
0 The {A} tower is the tallest in the county[, or it was before {B} Heights went up]. => {A}~tallest =>
  \bwas\b|before|{B}
0 I get my honey from {A}. / 1 still? / 0 not since the price went up, it's {B} who sells me mine now => honey~{A} =>
  not since|{B}
0 {A} runs a puppet theatre. / 1 Ran. The place burnt down. => {A} => \bran\b|burnt|burned
# correction fr
0 Le car pour {A} part à {t}. / 1 Mais non, à {u}, c'est l'horaire d'été. => {t} => {u}
# doubt fr
0 [Il paraît que ]la librairie {A} va fermer[, mais ça m'étonnerait]. => {A} => para[iî]t|étonner
# cancellation fr
0 On a réservé le gîte de {A} pour Pâques. / 1 Super ! / 0+ Le gîte de {A} est annulé, il y a eu une fuite d'eau. =>
  réservé~{A} => annulé|fuite
# retraction de
0 Ich kaufe den Traktor von {A}. / 1 Guter Preis? / 0+ Den Traktor von {A} lasse ich stehen, das Getriebe ist hin. =>
  kaufe~{A} => stehen|Getriebe
# changed es
0 El alquiler del local {A} son {n} euros. / 1 Vale / 0+ Desde marzo el local {A} cuesta {m}. => {n} => {m}
# question es
1 ¿{A} sigue viviendo en Sevilla? / 0 Ya no. => {A} => ya no
# only_if es
0 Puedes usar el taller de {A}[, siempre que barras al salir]. => {A} => siempre que|barr
# cancellation tr
0 {A} konseri için bilet aldık. / 1 Ne güzel! / 0+ {A} konseri iptal olmuş. => {A}~bilet => iptal
# question tr
1 {A} hâlâ hastanede mi? / 0 Taburcu edildi. => {A} => taburcu
# changed ja
0 {A}さんとの打ち合わせは{t}からです。 / 1 了解です / 0+ {A}さんとの打ち合わせ、{u}に変更になりました。 => {t} => {u}
# permission ja
0 {A}の倉庫は自由に使っていいよ。 / 1 ありがとう! / 0+ {A}の倉庫にはもう入らないでね。 => {A}~自由 => 入らない
# condition ja
0 [雨が降らなければ、]土曜日に{A}公園で花見をします。 => {A} => 降らな|雨
# doubt ja
0 [噂では、]{A}支店が来月閉まる[らしい]。 => {A} => 噂|らしい
"""
