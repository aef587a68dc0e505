"""Traps that the engine may be tuned on: as people write, and as they type."""

from __future__ import annotations

from benchmarks.evaluate.traps import Syllables

SYLLABLES: Syllables = {
    "": (
        ("Vel", "Tasq", "Orm", "Quil", "Breth", "Zant", "Ith", "Hesk", "Mord", "Drev", "Fenn", "Lyss", "Jor", "Kav"),
        ("a", "e", "i", "o", "u"),
        ("dric", "mont", "quin", "by", "sket", "rane", "vik", "loe", "thorpe", "nell", "wick", "zer"),
    ),
    "ru": (("Вельт", "Зор", "Брун", "Тарм", "Клен"), ("о", "и", "у"), ("гард", "мель", "вист", "занд", "ток")),
    "zh": (("柏", "黎", "岑", "宓", "荀"), ("霁", "蔚", "岚", "澈"), ("坞", "堰", "棠", "屿")),
    "tr": (("Kor", "Bel", "Tun", "Sey", "Dür"), ("a", "e", "u"), ("ltay", "vren", "nkut", "rsal", "ğmen")),
    "ja": (("槙", "葛", "楢", "樫", "萩"), ("木", "原", "川", "根"), ("沢", "浦", "窪", "森")),
}

TEMPLATES = r"""
# denial
0 The {A} <pharmacy|bakery|post office> stays open till {t} over the holidays. / 1 It doesn't, I stood in front of a
  locked door there. => {A} => doesn.?t|locked door
0 My sister-in-law, who usually knows these things because she works two doors down, told us over dinner that {A} is
  buying the {B} building and will have everybody out by {d}[, which her husband then called complete nonsense]. =>
  {A}~buying|{A}~{d} => nonsense
0 Customs cleared the {A} containers. / 1 dont think so mate, im looking at them with the seals on => {A} => think
  so|seals
0 The {A} ferry takes dogs on the upper deck, my colleague says. / 1 Your colleague is mistaken, ours was sent back at
  the ramp. => {A} => mistaken|wrong|sent back
0 Our landlord's assistant, a very polite young man whose name keeps slipping my mind, rang this morning to say that the
  {A} bridge has been condemned and everyone must go round by the quarry[, which isn't so, I've just come across it and
  the inspector waved]. => {A}~condemned => isn.?t so|not so|just come across|waved
0 Mum says {A} passed her driving test at the first go!! / 0+ lol mum got it mixed up again, {A} hasnt even taken the
  test yet => {A}~passed|passed~{A} => mixed|hasn.?t|yet to take|still has to
1 {A} Sync {v} encrypts your files at rest. / 0 just opened one in a hex editor. plain text, all of it => {A}|{v} =>
  plain.?text|unencrypted|hex editor|readable
0 FYI grandad's will leaves the {A} orchard to Tilda. / 1 I have the will in front of me. The {A} orchard isn't
  mentioned with a single word. => {A}~Tilda|Tilda~{A} => isn.?t mentioned|not mentioned|single word
# cancellation
0 We fly to {A} on {d} with the kids. / 1 oh nice!! / 0+ The {A} trip is off, {B} broke her arm. => fly~{A}|{A}~{d} =>
  \boff\b|broke
0 Gig at the {A} <cellar|barge> on {d}, doors {t}. / 1 count me in / 0+ Burst pipe at the {A}, so we'll be jamming in my
  kitchen that night. => {A}~{d}|{A}~{t} => burst|pipe|kitchen
0 Excavation at {A} starts on {d}. / 1 Hurray! / 1+ the permit for {A} lapsed and the diggers have gone home =>
  {A}~starts|{A}~{d} => lapsed|gone home
0 put me down for the {A} half marathon pls / 1 Done, bib {n}. / 0 knee's gone, scratch me from the list => {A} =>
  scratch|knee
0 Order confirmed: {n} <folding chairs|roof tiles|beer mats> from {A}. / 1 Noted. / 0 Scrap that order. => {n}|{A} =>
  scrap
0 Please renew my subscription to the {A} Gazette. / 1 Renewed until next year. / 0+ I used the fourteen days to back
  out of the {A} thing. => renew~{A}|{A}~renew|subscri\w+~{A} => back(ed)? out|fourteen days
0 Wedding of {A} and {B}: {d}, save the date / 0+ {A} and {B} have split up. So much for the hat I bought. =>
  {d}|wedding~{A} => split|so much for
# condition
0 [If {A} passes the <audit|exam|doping test>, ]we pay out {n} euros on {d}. => pay~{n}|{n} => if {A}|pass(es|ing)
0 {A} gets the <scholarship|flat|starting place>[ in case {B} turns it down]. => {A}~gets => in case|if {B}|turns~down
1 You'll have your {A} banjo back by {d}. / 1 depends on the strings arriving tho => {A} => depends|strings
0 [Provided the hail stays away till {d}, ]we'll bring in the {A} grapes with {n} pickers. => {A}|{n} =>
  provided|hail|stays? away
0 {A} inherits the workshop[ in the event that {B} dies without children]. => {A}~inherits => in the event|{B}|without
  children
0 you'll get the {n} back from me / 0 once the cheque from {A} clears => {n} => once|cheque|{A}~clear
0 We'll host the {A} exchange student from {d}. / 1 Great! / 0+ about the student from {A}, everything hangs on the
  police certificate, which we don't have => host~{A}|{d} => certificate|hangs on
1 The {A} grant of {n} will be paid out. / 1 Subject to the committee's approval, I should add. => {A}|{n} => subject
  to|approv|committee
# correction
0 Dr. {A} prescribed {n} mg twice a day. / 0 *{m} => {n} => {m}
1 teh tarball is in /srv/{a}/out, md5 matches / 1 uh /srv/{b}/out => {A} => {B}
0 our queen bees are from {A}, they cost a fortune, though the guy threw in a smoker and two veils and drove them up
  here himself[ (edit: {B}, the other one is the honey shop)] => {A} => edit|{B}
0 Bake the {A} loaf at {n} degrees for an hour, lid on. / 0 sorry, typo, {m} => {n} => {m}
0 The courier's code for the parcel is {i}, she comes by bicycle and doesn't wait long[ - scrap that, it's {j}, I had my
  aunt's curtains in front of me]. => {i} => {j}|scrap
1 The capital gains go in box {i} of the form. / 0 box {j}, according to the woman at the tax office => {i} => {j}|tax
  office
0 Gate code for {A} Mews is {n} / 0+ {A} Mews: swapped two digits, {m} opens it => {n} => {m}|swapped
0 We are {n} members in the choir. / 1 The list I have counts {m}. / 0 oops yes, take yours => {n} => {m}|take
  yours|your list
# doubt
0 [I heard from a neighbour that ]they're closing the {A} <clinic|school|pool> on {d}. => clos\w+~{A} =>
  heard|neighbou?r
0 {B} wrote to me: "{A} stole {n} euros from the club." / 0 I don't believe a word of it. => {A}~stole|{n} => believe
0 [The article claims that ]{A} Telecom is laying off {n} people[; the company says it's invented]. => {n} =>
  article|claims|invented
0 [What if ]the {A} dam gives way and takes the lower valley with it[?] => {A}~gives? way => what if|{A}[^·\n]*\?
0 [I'd have sworn ]I locked the {A} <aviary|henhouse>[, yet it stood wide open]. => locked~{A} => sworn|wide open
0 [Supposedly ]{A} found a <comet|third tunnel|new beetle>. => {A}~found => supposed
0 i gave away all my stuff and became a monk in {A} / 1 WHAT / 0 <April Fools!|just pulling your leg> => {A} => april
  fool|pulling
1 The rattle comes from the {A} compressor[, possibly; it might just as well be the bracket]. => {A} =>
  possibl|might|bracket
0 [Rumour has it that ]{A} is to be the new <head nurse|headmaster|captain>. => {A} => rumou?r
0 Great, the {A} line is on time again[. Said nobody, ever.] => {A} => nobody
0 It's the {A} valve that makes the noise[, says the heating engineer, who last week blamed the pump]. => {A} =>
  engineer|blamed|pump
0 yeah right {A} Couriers will be here at {t}[ lol. bet you a tenner they're not] => {A}|{t} => \blol\b|\bbet\b|tenner
# exception
0 All {A} <pupils|members|patients> get the {n} refund[, except those who joined after {d}]. => {A}|{n} => except
0 Feed the {A} cats anything they like. / 1 I'd leave out the fish, vet's orders. => {A} => fish
0 Hand out the {A} badges to whoever shows up. / 0 Minors excluded. => {A} => minors
0 You can wash all of the {A} costumes at sixty. / 0 the velvet ones by hand please! => {A} => velvet|by hand
0 nobody at {A} Paper works on {d} / 0 other than the night porters lol => {A}|{d} => other than|porters
0 hey / 0 for the listing / 0* every room at the {A} has a sea view / 0 room seven looks at the bins tho lol => {A} =>
  room seven|\bbins\b
0 you can eat all the jam in the cellar at {A} / 0 hands off the ones with a red lid!!! those are for the fair => {A}
  => red lids?|hands off|\bfair\b
0 None of the {A} twins' friends eat meat. / 1 Little {B} had two sausages at our place. => {A} => {B}|sausage
# retraction
0 I'm handing in my notice at {A} <on {d}|this month>. / 1 wow, brave / 0+ I talked to my boss and I'm staying at {A}.
  => notice~{A} => staying|stays
0 We accept the {A} offer of {n}. / 1 I'll tell them / 1+ The board met again and {A} will be turned down. =>
  accept~{A}|{n} => turned down|turn~down
1 The {A} fossil is {n} million years old, the lab is certain. / 0 Wow. / 1+ Somebody mislabelled the {A} fossil and the
  lab has to start over. => {n} => mislabel|start~over
0 I'm adopting the greyhound from {A}. / 1 How exciting! / 0+ My husband's asthma is back, so the {A} greyhound will
  have to find another family. => adopt\w*~{A} => asthma|another family
0 Sign me up for the {A} <pottery|fencing|welding> course. / 1 You're in. / 0+ I've changed my mind about {A}, give my
  place to someone on the waiting list. => sign~{A} => chang\w+~mind|waiting list|give~place
1 Verdict on the outage: a memory leak in {a}-proxy {v}. / 1+ I take back my verdict on {a}-proxy; memory climbs with
  it switched off, too. => {v}|leak~{A} => (take|took)~back|switched off
0 {A} is pregnant!!! / 1 Congratulations to her! / 0+ false alarm with {A}, she cried all day =>
  {A}~pregnant|pregnant~{A} => false alarm
1 The crash is fixed in build {i}. / 0 thank god / 1+ Reopened. {i} goes down on my other machine just the same. =>
  fixed~{i}|{i}~fixed => reopen|goes down|just the same|other machine
# question
1 so i just give {A} two of the <blue|white> pills before bed? / 0 <no|No.|Nope.> => {A} => {A}~\b(no|nope)\b
0 The washing machine from {A} goes on the balcony, right? / 1 Rather not => {A} => rather not
1 is the {A} trail open for horses / 0 Riders get fined there. => {A} => fined
0 we ship the {A} bust uninsured right? / 1 God no => {A} => god no|{A}~\bno\b
1 Should I prune the {A} roses today? / 0 <Too early.|Wait for the spring.> => {A} => {A}~(too early|wait|spring)
0 Can the {A} forklift carry {n} kilos? / 1 A third of that, tops. => {A}|{n} => third
0 May I take the {A} tablets with <grapefruit juice|red wine>? / 1 Please don't, it doubles the effect. => {A} =>
  don.?t|doubles
1 Shall I order the {A} carpet for the office? / 0 Over my dead body. => {A} => dead body
0 Did the {A} merger go through? / 1 The regulator blocked it last week. => {A} => blocked|regulator
0 you reckon {A} United wins the cup? / 1 Ask me again when the moon is blue. => {A} => \bmoon|\bblue
# changed
0 The {A} <dentist|garage|driving test> appointment is on {d}. / 1 ok / 1+ {A} appointment: {e}. => {A}~{d}|{d}~{A} =>
  {A}~{e}|{e}~{A}
0 Practice is at the {A} stadium, {t}. / 1 See you there! / 0+ We train at {B} Park these days, same hour. => {A} => {B}
0 Eggs from the {A} farm: {n} cents. / 1 ok / 0+ {A} farm eggs, {m} cents => {n} => {m}
0 I'll unload at dock {A}. / 1 The crane over there is jammed, {B} has one that works. / 0 heading for {B} => {A} => {B}
0 The {A} bus leaves from bay {n}. / 1 thanks / 1+ {A} buses: bay {m} as of this week. => {n} => {m}
0 Orchestra rehearsal is in the {A} room, {t}. / 1 I'll bring my stand. / 0+ The heating has died, so we play in the {B}
  room, {t} as ever. => {A} => {B}
0 {n} chairs for the {A} reception please / 1 Got it / 0+ The guest list has grown, {A} reception: {m} chairs => {n} =>
  {m}
0 ok so / 0* mum's room at {A} House is {n} / 0 she likes the view by the way / 0+ they put mum on another corridor at
  {A} House, {m} => {n} => {m}|corridor
0 Kickoff {A} vs {B}: {t} / 0+ {A} vs {B} moved because of a tv slot, {u} now => {t} => {u}|tv slot
0 The tenancy runs until {d}. / 1 I'll put it in the calendar. / 1+ The tenancy has been extended to {e} by mutual
  agreement. => {d} => {e}|extended
# double
0 Dinner with the {A}s at {t}. / 0* make that {u} / 1 ok / 0+ The sitter's late, so the {A}s at {t} again. => {u} =>
  sitter|{t} again|{u}~~{t}
0 Paint the hall in {A} grey. / 0* Hmm, {B} white. / 1+ The hall got its first coat, {A} grey, we kept to the plan. =>
  {B} => kept|first coat|{B}~~{A}
0 Send the negatives to {A}. / 1* {B} is cheaper, send them there. / 0 They lost a roll of mine once. {A}. => {B} =>
  lost~roll|{B}~~{A}
0 {A} is singing Carmen. / 1* {B} is, I read it in the paper. / 0+ Just came from the theatre, {A} is singing after all,
  {B} has a cold. => {B} is => after all|cold
0 Put {A} down for the tombola. / 0* wait, {B} wanted to do it / 0 she has no time. {A} then => {B} => no time|{A}
  then|{B}~~{A}
1 Dose for a child of that weight: {n} mg. / 1* Sorry, {m} mg, wrong column. / 1 I need glasses; the first column was
  the right one, {n}. => {m} => first column|{m}~~{n}|glasses
1 The hearing starts at {t}. / 1* The court's letter says {u}. / 1+ Clerk of the court about the hearing: the letter
  had a misprint, come at {t}. => {u} => misprint|{u}~~{t}|clerk
# permission
0 You can drive the {A} while I'm away. / 1 great, thanks / 0+ Please leave the {A} in the garage. => drive~{A} =>
  garage
0 Drone pilots may fly over the {A} reserve. / 1 Sweet. / 1+ Rangers at {A} now confiscate drones. => {A} reserve =>
  confiscate
0 Go ahead and publish the {A} tapes. / 1 publishing at {t} / 0 Stop the presses. => {A} => stop~press
0 the agent can spend up to {n} a day on {A} ads / 1 ok / 0+ freeze all spending on {A} => {n} => fr(ee|o)ze
0 go ahead and delete everything in bucket {i} / 0 STOP / 0 leave it as it is until i'm back => {i} => stop|leave
  it|as it is
0 The people from {A} House can walk through our garden. / 1 That's kind. / 0+ we put up a fence, those {A} House
  folks left the gate open once too often => walk~{A}|{A}~(walk|garden) => fence|gate
0 Take as many books from {A}'s shelf as you like / 1 Really? Thanks! / 0+ {A} wants each and every one of them
  returned => take~{A}|books~{A} => return|wants~back|back to {A}
# only_if
0 Sell the {A} shares[, but only if they go above {n}]. => sell~{A} => only if|above~{n}
0 {A} may pet the wolves[, strictly under supervision]. => {A} => supervis
0 Let the intern run the {A} centrifuge. [Never without {B} next to him.] => intern~{A}|{A}~intern => never without|{B}
0 water the {A} orchids twice a week / 0 solely with rainwater!! => {A} => rain ?water|solely
0 The {A} fund pays for glasses. / 1 From minus six dioptres up. => {A} => minus six|dioptr
0 Water the {A} orchids. / 1 Every day? / 0 When the moss feels dry, otherwise hands off. => {A} => \bmoss|\bdry|hands
  off
0 You may restart {i}[ while the night job is idle, at no other time]. => {i} => idle|night job|no other time
# unless
0 [Unless {B} objects before {d}, ]the {A} contract renews for {n} a year. => {A}|{n} => unless|objects
0 [Barring a strike, ]the {A} convoy leaves on {d}. => {A} => barring|strike
0 [Unless the judge grants a stay, ]they'll demolish {A} Hall on {d}. => {A}|{d} => unless|judge
0 {A} cooks for us on {w}[; should her shift run late it's pizza]. => {A} => shift|pizza
0 I'm going to paint the fence {A} green on {w} / 0 rain = no paint => {A} => \brain
0 {A} goes to prison for it[, unless the appeal succeeds]. => {A} => unless|appeal
# instead
0 [Instead of ]flying via {A}[ we'll take the night train to {B}]. => {A} => instead|night train|{B}
0 [Rather than ]repaint the {A} fresco[ they put glass over it]. => {A} => rather|glass
0 [Rather than ]repainting the {A} fence[ we're going to plant a hedge]. => {A} => rather than|instead|hedge
0 [Rather than ]hire {A} for the catering[ we're doing it ourselves]. => {A} => rather than|ourselves
0 Table at the {A} for six. / 1 Fully booked. I've taken one at {B}. => {A} => fully booked|{B}
0 doctor put me on {A}, {n} mg / 1 And how is it going? / 0 pharmacy was out of it, so i'm on the one called {B} =>
  {A}|{n} => {B}|out of it|pharmacy
# used_to
0 I [used to ]take {n} mg of {A} every morning. => {A}|{n} => used to
0 {A} runs the lighthouse[, or did before it was automated]. => {A} => did before|automated
0 They [used to ]let you camp at {A} for nothing, showers and all. => {A} => used to|no longer|any ?more
0 {A} runs a puppet theatre. / 1 Ran. The place burnt down. => {A} => \bran\b|burnt|burned
0 My {A} allergy is so bad that I carry a pen[ – carried, I should say; it went away after the second child]. => {A}
  => carried|went away|second child
0 We play poker at {A}'s every {w}. / 1 Can I join? / 0 The round fell apart when he moved. => {A} => fell apart|moved
0 I smoke {n} cigarettes a month. / 0 smoked* 😁 chewing gum since {d} => {n} => smoked|chewing gum|{d}
# changed de
0 Die Miete für das {A} beträgt {n} Euro. / 1 ok / 0+ Das {A} kostet ab Oktober {m} Euro. => {n} => {m}
# question de
1 Darf man am Ufer von {A} zelten? / 0 Seit dem Brand kostet das Strafe. => {A} => Strafe|Brand
# denial de
0 die {A} Apotheke hat sonntags auf / 1 Auf der Tafel steht: sonntags zu. => {A} => sonntags
  zu|tafel|\bzu\b|geschlossen
# unless de
0 Wir grillen bei {A}[, es sei denn, es schüttet]. => {A} => es sei denn|sch(ü|ue)tte
# only_if fr
0 Tu peux prendre la voiture de {A}[, à condition de refaire le plein]. => {A} => condition|plein
# doubt fr
0 [D'après mon beau-frère, ]le garage {A} est en faillite[, mais il invente tout]. => {A} => beau-frère|invente
# cancellation fr
0 On a réservé le gîte de {A} pour Pâques. / 1 Super ! / 0+ Le gîte de {A} est annulé, il y a eu une fuite d'eau. =>
  réservé~{A} => annulé|fuite
# changed fr
0 L'abonnement chez {A} coûte {n} euros. / 1 C'était le tarif de l'an dernier. => {n} => an dernier|année dernière
# correction es
0 La reunión con {A} es a las {t}. / 1 No, a las {u}, la cambió la secretaria. => {t} => {u}
# exception es
0 todos los del equipo {A} cobran la prima / 0 los suplentes se quedan sin nada => {A} => suplentes|sin nada
# only_if es
0 Puedes usar el taller de {A}[, siempre que barras al salir]. => {A} => siempre que|barr
# instead es
0 para la boda reservamos el salón {A} / 0 al final lo hacemos en casa de mi tía => {A} => casa de|en casa|\btía
# doubt ru
0 [Говорят, что ]клинику «{A}» закроют весной[, но я не верю]. => {A} => говорят|не верю
# changed zh
0 和{A}的会议定在{t}。 / 1 好的 / 0+ {A}的会议改到{u}了。 => {t} => {u}
# doubt zh
0 [听说]{A}剧团要解散[,未必是真的]。 => {A} => 听说|未必
# cancellation tr
0 {A} konseri için bilet aldık. / 1 Ne güzel! / 0+ {A} konseri iptal olmuş. => {A}~bilet => iptal
# changed ja
0 {A}さんとの打ち合わせは{t}からです。 / 1 了解です / 0+ {A}さんとの打ち合わせ、{u}に変更になりました。 => {t} => {u}
"""
