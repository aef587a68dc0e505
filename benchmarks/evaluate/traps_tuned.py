"""Traps that the engine may be tuned on, in sets of their own domains and names."""

from __future__ import annotations

from benchmarks.evaluate.traps import Syllables, Trap, grow

_NAMES_IN_FIVE_LANGUAGES: Syllables = {
    "": (
        ("Vel", "Tasq", "Orm", "Quil", "Breth", "Zant", "Ith", "Hesk", "Mord", "Drev", "Fenn", "Lyss", "Jor", "Kav"),
        ("a", "e", "i", "o", "u"),
        ("dric", "mont", "quin", "by", "sket", "rane", "vik", "loe", "thorpe", "nell", "wick", "zer"),
    ),
    "ru": (("Вельт", "Зор", "Брун", "Тарм", "Клен"), ("о", "и", "у"), ("гард", "мель", "вист", "занд", "ток")),
    "zh": (("柏", "黎", "岑", "宓", "荀"), ("霁", "蔚", "岚", "澈"), ("坞", "堰", "棠", "屿")),
}
IN_FIVE_LANGUAGES = r"""
# denial
0 The {A} <pharmacy|bakery|post office> stays open till {t} over the holidays. / 1 It doesn't, I stood in front of a
  locked door there. => {A} => doesn.?t|locked door
1 i read that {A} syrup is safe for <toddlers|dogs|pregnant women> / 0 It is not. => {A} => {A}~\b(is not|isn.?t|unsafe)
0 My nephew was accepted at the {A} <academy|conservatory|boarding school>, he starts on {d}. / 1 Congratulations! / 0+
  The letter from {A} was meant for a different boy with the same surname. => accepted~{A}|{A}~{d} => different boy|same
  surname
0 They've recalled the {A} <heater|pushchair|car seat>, batch {n}, straight to the skip with ours! / 1 Wrong batch, ours
  is fine, it's {m} they want back. => {n} => wrong batch|ours is fine|{m}
0 My sister-in-law, who usually knows these things because she works two doors down, told us over dinner that {A} is
  buying the {B} building and will have everybody out by {d}[, which her husband then called complete nonsense]. =>
  {A}~buying|{A}~{d} => nonsense
# cancellation
0 We fly to {A} on {d} with the kids. / 1 oh nice!! / 0+ The {A} trip is off, {B} broke her arm. => fly~{A}|{A}~{d} =>
  \boff\b|broke
0 please book the {A} <court|pitch|gym hall> for {w} {t} / 1 Booked. / 0 ah sorry, cancel that => {A} => cancel
1 Your appointment with Dr {A} is on {d} at {t}. / 0 ok thanks / 1+ Dr {A}'s practice rang, they have to call off all
  appointments <that week|until further notice>, sorry. => {A}~{d}|{A}~{t} => call(ed|s)? off|calls? all~off
0 {A} delivers the fridge at {t}. / 1 They phoned, no delivery. => {A} => no delivery
# condition
0 [If {A} passes the <audit|exam|doping test>, ]we pay out {n} euros on {d}. => pay~{n}|{n} => if {A}|pass(es|ing)
0 I'll lend you the {A} <drill|caravan|projector>[ as long as it's back by {d}]. => lend~{A} => as long as|back by
1 can we deploy {i} on {w}? / 0 Sure, once {A} has reviewed it. => {i} => (once|when|after|if) {A}|review\w* by {A}
0 The prosecutor will drop the charge against {A}. / 0 That is, assuming {B} pays back the {n} first. =>
  drop~charge~{A}|charge~{A}~drop => assuming|if {B}|pays? back
0 {A} gets the <scholarship|flat|starting place>[ in case {B} turns it down]. => {A}~gets => in case|if {B}|turns~down
0 as far as I'm concerned {A} can have the whole lot, the sofa, the lamps, even grandma's clock[ - when the estate is
  settled i mean, before that nobody touches a thing] => {A}~can have => settled|before that
# correction
0 Dr. {A} prescribed {n} mg twice a day. / 0 *{m} => {n} => {m}
0 Our train to {A} leaves at {t} from the upper platforms, I'll bring sandwiches and the cards[, no wait, {t} is the one
  to {B}, ours goes at {u}]. => {A}~{t} => {u}|no wait
0 {A} is the <team captain|treasurer|class teacher> now. / 1 You mean {B}. => {A} => {B}
1 The root password's in the vault under {i}. / 0 thx / 1 Correction: under {j}. => {i} => {j}
1 teh tarball is in /srv/{a}/out, md5 matches / 1 uh /srv/{b}/out => {A} => {B}
# doubt
0 [I heard from a neighbour that ]they're closing the {A} <clinic|school|pool> on {d}. => clos\w+~{A} =>
  heard|neighbou?r
0 [Apparently ]{A} failed the <doping test|bar exam|stress test>. => {A}~failed => apparent
0 [Oh sure, ]{A} Bank will refund us all {n} euros within a day[, and pigs can fly]. => {A}|{n} => oh sure|pigs
0 [Just picture it:] {A} buys the whole street and puts our rent up to {n}. => {A}~buys|{n} => picture
0 {B} wrote to me: "{A} stole {n} euros from the club." / 0 I don't believe a word of it. => {A}~stole|{n} => believe
0 we are selling the house and moving to {A} with the goats / 0 <jk|just kidding|that was a joke> :) => moving~{A} =>
  \bjk\b|kidding|joke|joking
0 [Not sure, but I think ]the <alarm code|safe combination|PIN> at {A} ends in {n}. => {n} => not sure|think
1 The {A} migration took {n} minutes[, if I remember right, don't pin me down]. => {n} => remember|pin me
0 [The article claims that ]{A} Telecom is laying off {n} people[; the company says it's invented]. => {n} =>
  article|claims|invented
# exception
0 All {A} <pupils|members|patients> get the {n} refund[, except those who joined after {d}]. => {A}|{n} => except
0 Anyone can park in the {A} yard. / 0 not on market days though => park~{A} => market days?
0 You may quote from everything in the {A} file. / 1 ok / 0+ The witness statements in the {A} file can't be quoted,
  forgot to say. => quote~{A} => witness|can.?t be quoted
0 The {A} licence covers every country[ apart from {B}]. => {A} => apart from|{B}
0 Feed the {A} cats anything they like. / 1 I'd leave out the fish, vet's orders. => {A} => fish
# retraction
0 I'm handing in my notice at {A} <on {d}|this month>. / 1 wow, brave / 0+ I talked to my boss and I'm staying at {A}.
  => notice~{A} => staying|stays
0 {A} admitted that he <cheated in|skipped|copied> the maths exam. / 1 Poor lad / 0+ What I said about {A} and the exam
  was wrong, I mixed him up with his cousin. => {A}~admitted => was wrong|mixed|cousin
0 I want {A} struck from the will. / 1 Noted. / 0+ {A} goes back into the will please, I was angry that day. =>
  {A}~struck|str(ike|uck)~{A} => goes back|back in|angry
1 I found the leak: it's the {A} library, version {v}. / 0 hm ok / 1+ Took {A} out altogether and memory keeps growing
  all the same. => leak~{A}|{v} => keeps growing|all the same
0 We accept the {A} offer of {n}. / 1 I'll tell them / 1+ The board met again and {A} will be turned down. =>
  accept~{A}|{n} => turned down|turn~down
0 {A} is allergic to penicillin, it's in the chart. / 1 I'll tell the surgeon. / 0+ The allergy test for {A} came back
  clean, penicillin is fine. => {A}~allergic => clean|is fine
# question
1 so i just give {A} two of the <blue|white> pills before bed? / 0 <no|No.|Nope.> => {A} => {A}~\b(no|nope)\b
0 Are we suing {A} over the fence? / 1 <Never.|Certainly not.> => {A} => {A}~\b(never|not)\b
1 Did {A} get the mortgage over {n}? / 0 Denied. => {A}|{n} => denied
0 {A} still coaching the under-12s? / 1 Retired. => {A} => retired
0 The washing machine from {A} goes on the balcony, right? / 1 Rather not => {A} => rather not
1 can I mount /srv/{a} on the prod box / 0 negative => {A} => {A}~negative
0 Is the {A} exam open book? / 1 Closed. => {A} => {A}~closed
0 Does my insurance with {A} pay for the crown? / 1 Half of it. => {A} => half
# changed
0 The {A} <dentist|garage|driving test> appointment is on {d}. / 1 ok / 1+ {A} appointment: {e}. => {A}~{d}|{d}~{A} =>
  {A}~{e}|{e}~{A}
0 The semester fee at {A} is {n} euros. / 1 That's a lot. / 1+ From autumn on {A} charges {m}. => {n} => {m}
0 {A} owns the billing service, ask him first. / 1 Will do. / 1+ {B} has taken over billing from {A}. => {A}~owns => {B}
0 We're on {a}-core {v} everywhere. / 1 good / 1+ Rollout of {a}-core {z} finished on all hosts. => {v} => {z}
0 Practice is at the {A} stadium, {t}. / 1 See you there! / 0+ We train at {B} Park these days, same hour. => {A} => {B}
0 Lawyer's rate: {n} an hour, that's {A} & Partners. / 1+ new fee schedule from {A} & Partners, hourly {m} => {n} => {m}
0 Shall we meet at {A} on {w}? / 1 I work that day, could do {x}. / 0 {x} it is, then. => {A}~{w} => {x}
0 Leave the spare key at the {A}s' / 1 Their dog barks at everyone, the shed would do. / 0 Shed, fine. => {A} => shed
# double
0 Dinner with the {A}s at {t}. / 0* make that {u} / 1 ok / 0+ The sitter's late, so the {A}s at {t} again. => {u} =>
  sitter|{t} again|{u}~~{t}
0 Deploy target is {i}. / 1* Use {j}, {i} has no disk space left. / 1+ Disk is fixed, the target is {i} again. => {j} =>
  disk is fixed|{i} again
0 {A} presents the <case|budget|thesis>. / 1* No, {B} does it. / 0 I asked, {A} wants to do it herself. => {B} =>
  {A}~wants|herself
0 School pickup for {A} is at {t} / 1* {A} told me {u} / 0 checked the timetable, {t} was right => {u} => was
  right|{u}~~{t}
0 Paint the hall in {A} grey. / 0* Hmm, {B} white. / 1+ The hall got its first coat, {A} grey, we kept to the plan. =>
  {B} => kept|first coat|{B}~~{A}
# permission
0 You can drive the {A} while I'm away. / 1 great, thanks / 0+ Please leave the {A} in the garage. => drive~{A} =>
  garage
0 The bot may <email customers|push to main|restart hosts> of project {A} on its own. / 1 ok! / 0+ No more automatic
  anything in project {A}, ask me first. => may~{A} => no more|ask me
0 feel free to use my {A} card for the groceries / 1 Thank you! / 0+ I blocked the {A} card this morning => use~{A} =>
  blocked
0 I hereby allow {A} to see my medical file. / 1 Understood. / 0+ My consent regarding {A} is withdrawn. => allow~{A} =>
  withdrawn|revoked
# only_if
0 Sell the {A} shares[, but only if they go above {n}]. => sell~{A} => only if|above~{n}
0 {A} may have <the painkiller|the injection|solid food> tonight. / 1 Only when the fever is under 39. => {A} => fever
0 run the {A} cleanup job / 0 but ONLY on staging!! => {A} => staging
1 Can {A} take the rowing boat out? / 0 with a life jacket => {A} => life.?jacket
# unless
0 [Unless {B} objects before {d}, ]the {A} contract renews for {n} a year. => {A}|{n} => unless|objects
0 We play at {A} on {w}[ unless the pitch is frozen]. => {A} => unless|frozen
0 {A} gets expelled. / 1 Not if he apologises. => {A} => not if|unless|apologi
0 I'll pay the {A} fine of {n}[, except if the appeal comes through]. => {n} => except if|unless|appeal
# instead
0 [Instead of ]flying via {A}[ we'll take the night train to {B}]. => {A} => instead|night train|{B}
0 I was going to buy the {A} winter tyres. / 0 got the {B} ones instead => {A} => instead|{B}
0 The {A} lamp goes in the hall. / 1 Swap it for the {B} one, it's brighter. => {A} => {B}
0 {A} is on goal tonight / 1 sub: {B} => {A} => {B}
# used_to
0 I [used to ]take {n} mg of {A} every morning. => {A}|{n} => used to
0 My brother [no longer ]plays for {A} Rovers. => {A} => no longer|any ?more|used to
0 We bank with {A}. / 1 since when? / 0 I mean we did until {d}, it's {B} now => bank with~{A} => until|{B}
0 The {A} clinic does home visits, my grandmother had one a week. / 1 In the old days, yes. => {A} => old days
# changed de
0 Die Miete für das {A} beträgt {n} Euro. / 1 ok / 0+ Das {A} kostet ab Oktober {m} Euro. => {n} => {m}
# cancellation de
0 Am Wochenende fahren wir nach {A}, das Hotel ist bezahlt. / 1 Viel Spaß! / 0+ Aus {A} wird leider nichts, Mama liegt
  im Krankenhaus. => nach {A} => nichts|Krankenhaus
# only_if fr
0 Tu peux prendre la voiture de {A}[, à condition de refaire le plein]. => {A} => condition|plein
# question fr
1 Est-ce que {A} est encore au lycée ? / 0 Plus maintenant. => {A} => plus maintenant
# correction es
0 La reunión con {A} es a las {t}. / 1 No, a las {u}, la cambió la secretaria. => {t} => {u}
# permission es
0 Puedes darle helado a {A} después de la cena. / 1 Vale. / 0+ A {A} nada de azúcar, lo ha dicho el dentista. =>
  helado~{A} => nada de azúcar|dentista
# doubt ru
0 [Говорят, что ]клинику «{A}» закроют весной[, но я не верю]. => {A} => говорят|не верю
# retraction ru
0 Мы берём кредит в банке «{A}». / 1 Хорошо. / 0+ Банк «{A}» нам отказал. => кредит~{A} => отказал
# changed zh
0 和{A}的会议定在{t}。 / 1 好的 / 0+ {A}的会议改到{u}了。 => {t} => {u}
# only_if zh
0 可以把钥匙交给{A}[,但必须有她妈妈陪着]。 => {A} => 妈妈
# condition de
0 [Falls es nicht regnet, ]spielen wir am Samstag gegen {A}. => {A} => falls|wenn
# question zh
1 {A}还在医院工作吗? / 0 退休了。 => {A} => 退休
"""

_NAMES_IN_OTHER_WORDS: Syllables = {
    "": (
        ("Ga", "Pu", "Wi", "No", "Shu", "Cae", "Ry", "Obu", "Thy", "Ele", "Dwa", "Xi"),
        ("lth", "mb", "rg", "shk", "ndl", "cc"),
        ("ersham", "owdy", "ambeau", "iston", "ulka", "eford", "aggio", "olm", "uska", "inch"),
    ),
    "ru": (("Ур", "Мшан", "Голд", "Пер", "Снеж"), ("а", "е", "ы"), ("гино", "лово", "шка", "рьево")),
    "zh": (("郗", "褚", "邬", "麹", "阚"), ("聆", "湄", "砚", "鸢"), ("汀", "崖", "榭", "峪")),
}
IN_OTHER_WORDS = r"""
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

#: The Latin names differ from each other in their first six letters.
_NAMES_IN_SEVEN_LANGUAGES: Syllables = {
    "": (
        ("Pel", "Sut", "Wex", "Nub", "Dal", "Bur", "Hov", "Yst", "Pim", "Cul", "Tav", "Lod", "Rin", "Gom", "Fis"),
        ("a", "e", "i", "o", "u"),
        ("lgar", "mbeth", "ndry", "rsk", "stow", "thway", "vern", "ckley", "ppard", "xton", "ftin", "gmoor"),
    ),
    "tr": (("Kor", "Bel", "Tun", "Sey", "Dür"), ("a", "e", "u"), ("ltay", "vren", "nkut", "rsal", "ğmen")),
    "ja": (("槙", "葛", "楢", "樫", "萩"), ("木", "原", "川", "根"), ("沢", "浦", "窪", "森")),
}
IN_SEVEN_LANGUAGES = r"""
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

#: Corrections as people type them, often without any word that tells of one.
_NAMES_AS_TYPED: Syllables = {
    "": (
        ("Gral", "Nuv", "Pesk", "Tyrn", "Wolm", "Cad", "Ulb", "Estr", "Hunj", "Rizt", "Sib", "Ovd", "Jast", "Lumb"),
        ("a", "e", "i", "o", "u"),
        ("beck", "dora", "fane", "gild", "hurst", "kesh", "lund", "mior", "nox", "pell", "rusk", "thal", "vane", "zin"),
    ),
}
AS_TYPED = r"""
# denial
0 they told us at the gate the {A} ferry takes <dogs|bikes>, no charge / 0 wrong. they stay ashore => {A} =>
  wrong|ashore
1 Good news: your {A} refund of {n} euros went out on {d}. / 0 Nothing has arrived and my bank says nothing was on its
  way at any time. => {n}|{d} => nothing
0 Mum says {A} passed her driving test at the first go!! / 0+ lol mum got it mixed up again, {A} hasnt even taken the
  test yet => {A}~passed|passed~{A} => mixed|hasn.?t|yet to take|still has to
1 According to the label, {A} <yoghurt|granola|spread> is free of nuts. / 0 Read the small print. Hazelnut, third
  ingredient. => {A} => hazelnut|small print
0 Our neighbor keeps telling everybody that it was {A} who scratched the blue van. / 1 And was it? / 0 The camera
  shows a bin rolling into it in the storm. => {A} => camera|\bbin\b|storm
0 Sir, I am informed that parcel {i} is delivered on {d} and {A} did sign. / 0 It is a lie. => {i}|{d}|{A} =>
  \blies?\b|\bfalse
1 {A} Sync {v} encrypts your files at rest. / 0 just opened one in a hex editor. plain text, all of it => {A}|{v} =>
  plain.?text|unencrypted|hex editor|readable
0 so {A} won the club championship then, it's in the newsletter / 1 The newsletter was printed before the protest was
  heard; the cup went to {B}. => {A} => {B}|protest
0 {A}'s dog bit the postman, half the street saw it. / 1+ I spoke to the postman about {A}'s dog: he came off his
  bicycle, no teeth involved. => {A}~\bbit(ten)?\b|\bbit(ten)?\b~{A} => bicycle|bike|no teeth|came off|fell
1 You can get a visa for {A} on arrival at the airport. / 0 Tell that to the officer who put me on the next plane home
  🙄 => {A} => next plane|officer|plane home|sent~(home|back)
0 FYI grandad's will leaves the {A} orchard to Tilda. / 1 I have the will in front of me. The {A} orchard isn't
  mentioned with a single word. => {A}~Tilda|Tilda~{A} => isn.?t mentioned|not mentioned|single word
0 The {A} museum lets students in for free on {w}s[, or so says the old poster; the lady at the till laughed at me].
  => {A} => old poster|laughed
0 quick one / 0* {A} has a nut allergy right? putting it on the camp list / 1 The form her parents signed leaves that
  field blank. / 0 ah that was the other {A}, from last year. crossing it out => {A}~(nut|allerg)|(nut|allerg)\w*~{A}
  => blank|other {A}|cross(ing|ed)
# cancellation
0 the {A} gig on {d} is happening, i got us two tickets / 1 Brilliant, I'll look for a place to eat nearby. / 0+
  singer of {A} lost her voice :( money back on monday => {d}|{A}~(gig|ticket) => lost~voice|money back|refund
0 Order confirmed: {n} <folding chairs|roof tiles|beer mats> from {A}. / 1 Noted. / 0 Scrap that order. => {n}|{A} =>
  scrap
0 We've hired {A} as the new <librarian|cook|caretaker> from {d}. / 1+ {A} has taken a post elsewhere and will stay in
  her own town. => hired~{A}|{d}|{A}~(librarian|cook|caretaker) => elsewhere|taken~post
1 Surgery for {A} is scheduled on {d}, fasting from midnight. / 0 the surgeon has the flu, they struck it from the
  list => {A}|{d} => \bflu\b|struck
0 book club meets at {A}'s on {w}, bring cake / 0 forget it, her heating has packed up => {A} => forget it|heating
0 Please renew my subscription to the {A} Gazette. / 1 Renewed until next year. / 0+ I used the fourteen days to back
  out of the {A} thing. => renew~{A}|{A}~renew|subscri\w+~{A} => back(ed)? out|fourteen days
0 school trip to {A} on {d}!!! packed lunch needed / 1 I'll remind you the evening before. / 0 they found too few
  parents to come along. kids stay at school that day => {A}|{d} => too few|stay~at school
0 Reserve server {i} for the load test from {t}. / 1 Done. / 0 release it pls, test is pushed to the thirtieth of
  february 😅 => {i}|{t} => release|thirtieth|february
1 Your flight {i} to {A} departs at {t}. / 1+ Important information for passengers to {A}: owing to industrial action
  no aircraft will leave on that day. => {i}|{t} => strike|industrial action|no aircraft
0 Wedding of {A} and {B}: {d}, save the date / 0+ {A} and {B} have split up. So much for the hat I bought. =>
  {d}|wedding~{A} => split|so much for
0 I ordered the {A} sofa in green, delivery {d} / 1 Lovely. / 0 My husband saw the price. We keep the old one. =>
  {A}|{d} => saw the price|keep~old
0 The council is to build a skate park behind {A} Street[; that was before the budget went down the drain]. => {A} =>
  budget|down the drain|was before
0 The annual meeting of the {A} Rose Society takes place on {d} at {t} in the parish hall, and all members are
  cordially invited to bring a dish. / 1 I've put it in the calendar. / 0+ Owing to a burst pipe the Rose Society of
  {A} cannot meet; a new date will be announced in due course. => {d}|{t}|annual meeting~{A} => burst pipe|cannot
  meet|new date
# condition
0 [Provided the bank plays along, ]we sign for the {A} <cottage|flat|barn> on {d}. => {A}|{d} => provided|\bbank\b
0 you'll get the {n} back from me / 0 once the cheque from {A} clears => {n} => once|cheque|{A}~clear
0 {A} can move into the attic[ the day she finds a job] => {A} => finds|\bjob\b
1 I'd release {a}-web {v} on {w}. / 0 ok. green tests first though => {v} => green|tests
0 My aunt is leaving me the {A} brooch[, if I turn up at her ninetieth]. => {A} => \bif\b|ninetieth|turn(s|ing)? up
0 We'll host the {A} exchange student from {d}. / 1 Great! / 0+ about the student from {A}, everything hangs on the
  police certificate, which we don't have => host~{A}|{d} => certificate|hangs on
0 The physio lets me back on the pitch against {A}[, given that the scan shows nothing]. => {A} => given that|\bscan
0 yes we take the {A} <kitten|puppy> / 0 my wife must say yes too => {A} => wife
0 Landlord agrees to a new {A} boiler. / 1 That's generous of him. / 0 he wants a two years lease extension in return.
  no signature no boiler => {A} => lease|in return|extension|signature
1 The {A} grant of {n} will be paid out. / 1 Subject to the committee's approval, I should add. => {A}|{n} => subject
  to|approv|committee
0 {A} inherits the workshop. / 1 I thought she hated the place? / 0 she has to run it ten years first, thats in the
  paper => {A} => ten years|run it
0 If the {B} deal closes... / 0* we hire {A} full time / 1 And otherwise? / 0 otherwise freelance as now => {A} =>
  if~{B}|{B}~clos|otherwise|freelance
0 I will extend {A}'s deadline to {d}, she has been ill and I am not a monster[, always assuming I see a doctor's note
  before the weekend]. => {A}|{d} => assuming|doctor.?s note|\bnote\b
# correction
0 flight lands {t} at {A} / 0 sorry typo, {u} => {t} => {u}|typo
0 I paid {n} <euros|pounds> for the piano tuner. / 1+ The tuner's receipt in your folder says {m}. => {n} =>
  {m}|receipt
1 The capital gains go in box {i} of the form. / 0 box {j}, according to the woman at the tax office => {i} => {j}|tax
  office
0 We met {A} at the conference, lovely woman, works on bees[; or was it {B}? {B}, yes, {A} is the wasp lady]. =>
  {A}~bees|met~{A} => {B}|wasp
0 Send the invoice to {A} Ltd. / 1 It's in the post. / 0 facepalm. {B} Ltd pays for this one => {A} => {B}|facepalm
0 so the recipe: {n} g flour, four eggs, lemon of course, bake it slow / 1 Your grandmother's booklet has {m} g of
  flour there. => {n} => {m}
0 Gate code for {A} Mews is {n} / 0+ {A} Mews: swapped two digits, {m} opens it => {n} => {m}|swapped
1 The deposit is due on {d}. / 0 i count three weeks from the signature, makes {e} => {d} => {e}
0 {A} plays the cello in our quartet, and she has played it since she was six. / 1 In the photo you sent me she is
  holding a viola. / 0 Viola, thank you, I never learn this. => {A} => viola
0 the guy who fixed the roof is called {A} / 0 {B}!! i always mix those two up => {A} => {B}
0 We are {n} members in the choir. / 1 The list I have counts {m}. / 0 oops yes, take yours => {n} => {m}|take
  yours|your list
0 Please translate the {A} <letter|contract|poem> into Danish. / 1 Will do. / 0 Norwegian. Sorry, long day. => {A} =>
  Norwegian
1 tests fail since commit {i}, bisected it / 1+ my bisect was off by one, {j} broke the tests => {i} => {j}|off by one
0 hi! / 0* can u transfer {n} to {A} for the hockey kit / 1 The kit list adds up to {m}. / 0 omg right do that => {n}
  => {m}
# doubt
0 [if the forum is to be believed, ]{A}OS {v} bricks older phones => {v}|{A} => forum|believed
0 [My ex claims ]{A} owes <her|the kids> {n} euros. => {A}|{n} => \bex\b|claim
0 the {A} tower is {n} metres tall[ or so the ice cream man told me] => {n} => ice.?cream|or so
0 [Rumour has it that ]{A} is to be the new <head nurse|headmaster|captain>. => {A} => rumou?r
1 The {A} cartridge fits your printer. / 0 have you checked / 1 I was guessing from the model name. => {A} => guess
0 {A} Airways gave us an upgrade to first class[, in my dreams] => {A} => dream
0 [Suppose ]{A} leaves the company on {d}[: who'd run payroll?] => {A}|{d} => suppos|who.?d|who would|\bif\b
0 Great, the {A} line is on time again[. Said nobody, ever.] => {A} => nobody
0 uncle joe: the doctors at {A} removed the wrong kidney / 0 he also says the moon landing was filmed in his shed =>
  {A} => moon|\bshed
1 The {A} mushroom you describe is edible. / 0 how sure r u / 1 Perhaps six in ten. => {A} => six in ten|perhaps|60|6
  in 10
0 {A} has been seen in a casino in {B}. / 1 By whom? / 0 By a man who wants her job. => {A}|{B} => wants her job|by a
  man|man who
0 It's the {A} valve that makes the noise[, says the heating engineer, who last week blamed the pump]. => {A} =>
  engineer|blamed|pump
0 {A} poisoned the count with {n} drops of foxglove. / 0 (chapter nine of my novel, before you call the police) =>
  {A}|{n} => novel|chapter
0 [Somebody scribbled in the gym loo that ]{A} takes steroids. => {A} => scribbl|somebody|someone|\bloo\b
0 {A} is behind the burglary at the clubhouse, everyone knows it, his car was seen, he needs the money, he has that
  look about him. / 1 What do the police say? / 0 The police have no suspect. => {A} => no suspect|police
0 yeah right {A} Couriers will be here at {t}[ lol. bet you a tenner they're not] => {A}|{t} => \blol\b|\bbet\b|tenner
# exception
0 The {A} <baths|kennels|archives> open daily at {t}[, bar Tuesdays]. => {A}|{t} => tuesday
0 my {A} insurance covers everything that breaks in the flat / 0+ found the clause in the {A} policy: glass is our own
  problem => {A}~(everything|cover) => glass|clause|own problem
0 Everyone in team {A} gets a laptop. / 1 The interns too? / 0 They bring their own. => {A} =>
  interns?|(bring|their)~own
0 hey / 0 for the listing / 0* every room at the {A} has a sea view / 0 room seven looks at the bins tho lol => {A} =>
  room seven|\bbins\b
0 {A} eats anything you put in front of her[, only keep the shellfish away]. => {A} => shellfish
1 All ports on {i} are closed. / 1 With {n} being the odd one out. => {i} => {n}|odd one
0 the whole of {A} Street gets fibre this year / 1 Your side of it has to wait for phase two. => {A} => your
  side|phase two|wait
0 you can eat all the jam in the cellar at {A} / 0 hands off the ones with a red lid!!! those are for the fair => {A}
  => red lids?|hands off|\bfair\b
0 Rehearsals with {A} are every {w}. / 1 In the school holidays as well? / 0 Then the hall is locked. => {A} =>
  locked|holidays
0 I've paid all the {A} bills. / 0+ just saw one from {A} under the fridge magnet, {n} euros, still open => paid~{A}
  => still open|magnet|{n}|unpaid
0 The {A} pass lets you ride every bus in town[; the night lines want a supplement]. => {A} => night|supplement
0 None of the {A} twins' friends eat meat. / 1 Little {B} had two sausages at our place. => {A} => {B}|sausage
0 In thirty years of practice I can say that {A} <drops|patches> are tolerated well by all patients, young and old[,
  the lady with the weak heart excepted, who spent a week in hospital]. => {A} => weak heart|hospital|excepted
0 backups of all {A} databases ran last night ✅ / 1+ One of the {A} ones is missing from the bucket: billing. =>
  (all|backups?)~{A}|{A}~ran => missing|billing
# retraction
0 I'm leaving my wife. I've taken a flat in {A}. / 1 I'm sorry to hear that. / 0+ we talked all night, i gave the keys
  for {A} back => flat~{A}|taken~{A}|leaving~{A} => gave~back|talked all night|keys~back|return\w*~keys?
0 {A} stole my bicycle, I'm going to report him on {w}. / 1 Would you like help with the wording? / 0+ omg the bike
  was at my sisters the whole time. poor {A} => stole~{A}|{A}~stole => sister|whole time|poor {A}
1 Verdict on the outage: a memory leak in {a}-proxy {v}. / 1+ I take back my verdict on {a}-proxy; memory climbs with
  it switched off, too. => {v}|leak~{A} => (take|took)~back|switched off
0 i'm <allergic to|getting a rash from> {A} / 0+ it was the washing powder all along, {A} is ok for me =>
  (allergic|rash)~{A} => washing powder|{A} is ok|all along
0 I resign as treasurer of the {A} Society with effect from {d}. / 1 Your letter is on file. / 0+ The members of the
  {A} Society begged me to carry on, so you may tear up my letter. => resign~{A}|{d} => tear|tore|begged|carry on
0 The painting is a genuine {A}, the expert told us, worth {n} thousand. / 1 Fantastic news. / 0 Second expert: it's a
  copy, the canvas is from the eighties. => {A}|{n} => copy|second expert|eighties
0 {A} is pregnant!!! / 1 Congratulations to her! / 0+ false alarm with {A}, she cried all day =>
  {A}~pregnant|pregnant~{A} => false alarm
0 we move to {A} in spring, its decided / 1 Exciting! / 0 slept on it. we stay put. => {A} => stay(s|ing)? put|slept
  on
0 The mistake in the {A} minutes was mine. / 1+ I compared the {A} minutes with the recording, it was {B} who swapped
  the figures. => mistake~{A}|{A}~mine => {B}|recording|swapped
0 Counsel at {A} & Co calls our case safe as houses. / 1 Encouraging. / 0+ {A} & Co did a U-turn after reading the
  other side's file, they urge us to settle. => {A}~safe|safe~{A} => u.?turn|settle
1 The crash is fixed in build {i}. / 0 thank god / 1+ Reopened. {i} goes down on my other machine just the same. =>
  fixed~{i}|{i}~fixed => reopen|goes down|just the same|other machine
0 im done with {A}, deleted the number / 1 That sounds final. / 0+ {A} called and we laughed for two hours, bffs again
  => done with~{A}|deleted~{A} => laughed|bffs|friends again
0 Mark my words, {A} failed the inspection because of rats, I saw them. / 1 You saw rats in the kitchen? / 0 gerbils.
  they belong to the owner's kid. i feel stupid => {A} => gerbils?|kid|stupid
# question
0 May I take the {A} tablets with <grapefruit juice|red wine>? / 1 Please don't, it doubles the effect. => {A} =>
  don.?t|doubles
0 does {A} do click and collect / 1 They went out of business in spring. => {A} => out of business
0 Has {A} paid the rent for this month? / 1 There's {n} outstanding. => {A} => outstanding|owes?|{n}
0 is {A} coming to the barbecue? / 0 nvm, she's in hospital => {A} => hospital
1 Shall I order the {A} carpet for the office? / 0 Over my dead body. => {A} => dead body
0 Would the train from {A} get me there by {t}? / 1 The first one of the day gets in an hour too late for that. =>
  {A}|{t} => too late|hour~late
0 Could we get the {A} manuscript to the printer on {d}? / 1 With half of it unwritten? => {A}|{d} => unwritten|half
0 can i put the {A} <pan|knife> in the dishwasher / 1 Sponge and warm water. => {A} => sponge|warm water|by hand
0 Did the {A} merger go through? / 1 The regulator blocked it last week. => {A} => blocked|regulator
1 Is {A} your emergency contact, as before? / 0 we're divorced, put {B} => {A} => divorced|{B}
0 wasnt {A} the one who wrote the parser? / 1 git blame says {B} => {A} => {B}
0 Will my {A} visa let me work there? / 1 Looking at beaches is all it lets you do. => {A} => beach
0 you reckon {A} United wins the cup? / 1 Ask me again when the moon is blue. => {A} => \bmoon|\bblue
0 Esteemed assistant, does the {A} warranty include the battery? / 1 It covers the casing and the motor, and that's
  it. => {A} => casing|motor|that.?s it
# changed
0 The wifi at {A} is under {i} / 1+ New router at {A}, network's called {j} => {i} => {j}|new router
0 bus to {A} leaves at {t}, every day same / 0+ winter timetable is out: {A} bus {u} => {t} => {u}|winter
0 {A} is my GP. / 1 Noted. / 0+ dr {A} stopped practising, i'm with {B} since last week => {A}~GP|GP~{A} =>
  stopped|{B}
0 ok so / 0* mum's room at {A} House is {n} / 0 she likes the view by the way / 0+ they put mum on another corridor at
  {A} House, {m} => {n} => {m}|corridor
0 A ticket to {A} costs {n}. / 1 That was last year's price. => {n} => last year
0 Scales say {n} pounds, I'm a whale. / 1 Let's make a plan. / 0+ stepped on the scales again: {m}. blame the
  holidays, or the scales => {n} => {m}
1 The {A} office is on the third floor. / 0 they moved in summer, ground floor, next to the kiosk => {A} =>
  moved|ground floor|kiosk
0 Kickoff {A} vs {B}: {t} / 0+ {A} vs {B} moved because of a tv slot, {u} now => {t} => {u}|tv slot
0 Our API limit with {A} is {n} calls a minute. / 1 ok, throttling to that / 1+ {A} put us on another plan: {m} calls.
  => {n} => {m}|another plan
0 Hello, my name is {A}, customer {i}. / 0+ I married, please write {B} on everything for customer {i} => {A} =>
  {B}|married
0 I'm doing {n} lengths a week in the pool. / 1 Impressive! / 0+ new plan from the physio, {m} lengths a week,
  breaststroke forbidden => {n} => {m}|new plan|physio
0 The tenancy runs until {d}. / 1 I'll put it in the calendar. / 1+ The tenancy has been extended to {e} by mutual
  agreement. => {d} => {e}|extended
0 {A} trades at {n} kroner a share. / 1 When did you look? / 0 Before the crash. => {n} => crash
0 pin {a}-lint to {v} / 1 ok / 0+ {a}-lint {z} is out and likes our config, take that one => {v} => {z}
0 my locker at the {A} pool is {n} / 0 they gave it to a diving club. mine's {m}, by the showers => {n} =>
  {m}|diving|showers
# double
0 Parents' evening is on {d}. / 1* The website of the {A} school says {e}. / 0 website is outdated, rang the office,
  {d} it is => {e} => outdated|{d} it is|rang|{e}~~{d}
0 Put {A} down for the tombola. / 0* wait, {B} wanted to do it / 0 she has no time. {A} then => {B} => no time|{A}
  then|{B}~~{A}
0 The leak is in the bathroom of flat {i}. / 1* The plumber's note says flat {j}. / 0 I live here, i see the water.
  {i}! => {j} => see the water|{j}~~{i}|live here
0 My salary was {n} at {A}. / 1* Your contract states {m}. / 0 The contract is an old one, so what I wrote stands. =>
  {m} => old one|old contract|stands|{m}~~{n}
0 {A} drives us. / 0* no {B} drives, shes got the bigger car / 1+ The bigger car broke down, so it's {A} at the wheel
  as planned. => {B} => broke down|as planned|at the wheel|{B}~~{A}
1 Dose for a child of that weight: {n} mg. / 1* Sorry, {m} mg, wrong column. / 1 I need glasses; the first column was
  the right one, {n}. => {m} => first column|{m}~~{n}|glasses
0 we fly from {A} / 1* Your ticket says {B}. / 0 thats the return leg. out is {A} => {B} => return|out is|{B}~~{A}
0 lets call the cat {A} / 0* the kids want {B} / 0 the vet laughed so much that it's {A} in the passport now => {B} =>
  \bvet\b|passport|{B}~~{A}
0 Choose the {A} tiles. / 1 Ordered. / 0* My mother in law prefers {B}, change the order please. / 0+ She's gone home.
  {A} tiles, as before. => {B} => gone home|as before|{B}~~{A}
1 The hearing starts at {t}. / 1* The court's letter says {u}. / 1+ Clerk of the court about the hearing: the letter
  had a misprint, come at {t}. => {u} => misprint|{u}~~{t}|clerk
0 Use branch {a}-main. / 0* {b}-main i mean / 1 That one was deleted in the clean-up. / 0 ha, {a}-main after all then
  => {B} => deleted|after all|{B}~~{A}
0 I bowled {n} last night. / 1* The club sheet lists you with {m}. / 0 Sheet mixes me up with my brother, who bowls
  for the same club. => {m} => brother|mixe[sd]|mixing|{m}~~{n}
0 Pay {A} the {n} we agreed. / 0* {m}, i had the wrong sheet open / 0+ {A} sent the signed copy, it says {n} after all
  => {m} => signed copy|{m}~~{n}|after all
# permission
0 {A} may use my studio on weekends. / 1 I'll tell her. / 0+ after what {A} did to the mixing desk the studio stays
  locked for her => \bmay~{A}|{A}~\b(may|can|use) => locked|mixing desk
0 go ahead and delete everything in bucket {i} / 0 STOP / 0 leave it as it is until i'm back => {i} => stop|leave
  it|as it is
0 I consent to {A} publishing my photos. / 1 Thank you. / 0+ Kindly inform {A} that I revoke what I signed as of
  today. => {A}~publish|publish\w*~{A} => revok|withdr
0 ok {A} can have the tablet till {t} / 0 on second thoughts, screens stay in the drawer today. homework => {t}|{A} =>
  second thought|drawer|homework
0 You have my blessing to spend up to {n} on the {A} party. / 0+ Put the purse away, the {A} party money has gone into
  the boiler. => {n}|spend~{A} => purse|boiler|gone
0 The people from {A} House can walk through our garden. / 1 That's kind. / 0+ we put up a fence, those {A} House
  folks left the gate open once too often => walk~{A}|{A}~(walk|garden) => fence|gate
1 Guests of the {A} may use the sauna. / 1+ Sauna in the {A} is shut to guests by order of the fire brigade. =>
  {A}~\b(may|can|use)\b => shut|closed|fire brigade
0 you can answer mails from {A} in my name / 0 changed my mind, i want to read them before anything goes out => {A} =>
  changed my mind|read them|before anything
0 Minors are admitted to the {A} screening with a parent's note. / 1+ House rule for {A} as of tonight: adults only.
  => minors~{A} => adults
0 Take as many books from {A}'s shelf as you like / 1 Really? Thanks! / 0+ {A} wants each and every one of them
  returned => take~{A}|books~{A} => return|wants~back|back to {A}
0 {A} is cleared to train with the team. / 1 Good to hear. / 0+ Club doctor has pulled {A} out till the next scan. =>
  cleared~{A}|{A}~cleared => pulled|\bscan
0 Yes, {A} may quote me. / 0+ I read the draft {A} wrote. My name is to be taken out of it. => quote~{A}|{A}~quote =>
  (taken?|took)~out|name~out|remove
1 Contractors can log in to {i} with their {A} badge. / 0 since when?? / 1 Since the pilot, and the pilot ended last
  night. => {i}|{A} => ended|\bpilot
# only_if
0 give {A} the second inhaler dose[, but just if she's wheezing] => {A} => wheez|\bif\b
0 The {A} fund pays for glasses. / 1 From minus six dioptres up. => {A} => minus six|dioptr
0 you can merge {i} / 0 after {A} had a look, obviously => {i} => {A}|\blook|after
0 {A} may come to the sleepover[ with her own sleeping bag; we have none left]. => {A} => sleeping.?bag
1 {A} Bank waives the fee of {n}. / 1 That holds for accounts with a salary coming in. => {A}|{n} => salary
0 Water the {A} orchids. / 1 Every day? / 0 When the moss feels dry, otherwise hands off. => {A} => \bmoss|\bdry|hands
  off
0 We'd sell the boat to {A}[. Cash on the table, no instalments, that's the deal]. => {A} => cash|instalments
0 My {A} voucher gives {n} off. / 0+ read the small print on the {A} voucher, it wants a basket over a thousand => {n}
  => basket|thousand|small print
0 {A} will testify for us. / 1 Has she agreed? / 0 behind a screen, else she stays home => {A} => screen|stays? home
0 You may restart {i}[ while the night job is idle, at no other time]. => {i} => idle|night job|no other time
1 The {A} trail can be hiked in winter. / 0 on snowshoes my friend => {A} => snowshoes
0 {A} gets a raise of {n}[ the moment she signs for three more years, not a day earlier] => {A}|{n} => signs|three
  more|not a day
0 send {A} the press kit / 1 Sent as soon as you say the word. / 0 embargo signed = send. nothing signed = nothing
  sent => {A} => embargo|signed
# unless
0 {A} cooks for us on {w}[; should her shift run late it's pizza]. => {A} => shift|pizza
0 The {A} choir sings at the funeral on {d}. / 1 Fewer than ten singers and they pass. => {A}|{d} => fewer|they
  pass|\bten\b
0 [Barring another strike, ]we land in {A} at {t}. => {A}|{t} => barring|strike
0 okay / 0* im selling the {A} guitar to the guy from the market / 0 for {n} / 0 ...if grandpa asks for it back tho
  its off => {A} => grandpa|\bif\b
0 I'm going to paint the fence {A} green on {w} / 0 rain = no paint => {A} => \brain
0 The {A} contract ends on {d}. / 1 Say nothing and it runs on for a year, mind you. => {A}|{d} => runs on|say(ing)?
  nothing|renew
1 Job {i} runs at {t} every night. / 0 skips when the disk is nearly full => {i}|{t} => skip|disk
0 We'll get married at {A} Castle on {d}. / 1 How lovely! / 0 if mum is still bedridden by then we postpone => {A}|{d}
  => bedridden|postpone
0 {A} goes to prison for it[, unless the appeal succeeds]. => {A} => unless|appeal
0 Coach puts {A} in the first eight. / 1 With that knee? / 0 knee holds or {B} rows => {A} => \bknee|{B}
0 I'm keeping the {A} jacket / 0 my girlfriend gets a veto lol => {A} => veto|girlfriend
0 Payment of {n} goes out to {A} on {d}. / 1+ Re the payment to {A}: a single objection from the board stops it. =>
  {n}|{d} => objection|stop
# instead
0 [Rather than ]hire {A} for the catering[ we're doing it ourselves]. => {A} => rather than|ourselves
1 For the login page I'll use the {a}-auth library. / 0 {b}-auth pls, we have it in three other services / 1 Good
  point, taking that. => {A} => {B}|good point
0 {A} does the speech at the wedding. / 0+ {A} has stage fright so guess who's talking. me. => {A}~speech|speech~{A}
  => stage fright|guess who
1 Breakfast at {A} is booked for {t}. / 0 could we do somewhere without stairs, for auntie / 1 {B} has a ramp; moved
  us there. => {A} => {B}|ramp|moved
0 Table at the {A} for six. / 1 Fully booked. I've taken one at {B}. => {A} => fully booked|{B}
0 We take the {A} motorway. / 1 Two hours of queue there. / 0 coast road it is => {A} => coast road|queue
0 I'll make {A} soup for the guests / 0 shop had no fish left, they get lasagne => {A} => lasagne|no fish
0 {A} will chair the board. / 1+ Minutes of the board are in: {B} took the chair. => {A} => {B}
0 doctor put me on {A}, {n} mg / 1 And how is it going? / 0 pharmacy was out of it, so i'm on the one called {B} =>
  {A}|{n} => {B}|out of it|pharmacy
0 sign me up for the {A} course on {w}s / 1 That one is full, there's a place in {B}. / 0 fine by me => {A} =>
  \bfull\b|{B}
0 Day two of our trip: the {A} museum[ was skipped for a nap in the park, no regrets] => {A} => skipped|\bnap\b
0 Our raffle money goes to {A} Aid this year. / 1 The vote went the other way: the hospice gets it. => {A} =>
  hospice|other way|\bvote
# used_to
0 [Back in the day ]you could leave your bike unlocked in {A}. => {A} => back in|in the day|old days
0 {A} teaches <maths|latin|PE> at our school. / 1 Really? Still? / 0 till the pension two years ago => {A} =>
  pension|two years ago|till|until
0 I run {n} km a month. / 1 That's a lot! / 0 ...in my twenties. now I run to the fridge => {n} => twenties|fridge
0 My {A} allergy is so bad that I carry a pen[ – carried, I should say; it went away after the second child]. => {A}
  => carried|went away|second child
0 {A} is married to my cousin. / 0+ oh you didn't know? my cousin and {A} got divorced ages ago =>
  married~{A}|{A}~married => divorced|ages ago
1 {A} is the maintainer of the crate. / 0 was, repo archived, look at the banner => {A} =>
  \bwas\b|archived|banner|former
0 The {A} café has the best cake, {n} calories a slice and worth every one[. Had. It's a phone shop these days]. =>
  {A}|{n} => \bhad\b|phone shop|these days
0 We play poker at {A}'s every {w}. / 1 Can I join? / 0 The round fell apart when he moved. => {A} => fell apart|moved
0 {A} lives with us. / 0 lived. sorry. i can't get into the habit of writing it. she died at easter => {A} =>
  lived|died|easter
0 My grandfather owns the {A} mill. / 1 Does he run it himself? / 0 he sold to a brewery before i was born, we just
  keep saying it => {A} => \bsold\b|brewery|before i was
0 The {A} line stops at our village[, or did before they pulled up the rails]. => {A} => or did|pulled up|rails
0 I smoke {n} cigarettes a month. / 0 smoked* 😁 chewing gum since {d} => {n} => smoked|chewing gum|{d}
0 We [used to ]feed the {A} horses with sugar lumps, {n} of them in the good years. => {A}|{n} => used to|formerly
# denial de
0 die {A} Apotheke hat sonntags auf / 1 Auf der Tafel steht: sonntags zu. => {A} => sonntags
  zu|tafel|\bzu\b|geschlossen
# doubt de
0 [Angeblich ]hat {A} im Lotto {n} Euro gewonnen[, sagt zumindest der Wirt]. => {A}|{n} => angeblich|\bwirt
0 Toll, die {A} GmbH zahlt pünktlich[, und ich bin der Kaiser von China]. => {A} => kaiser
# exception de
0 Bei {A} gibts alles, was man zum Renovieren braucht / 0 außer farbe, die haben sie aus dem programm genommen => {A}
  => au(ß|ss)er|farbe
# used_to de
0 Ich gehe zweimal die Woche ins {A} Studio. / 1 Respekt! / 0 na ja, bis zum Bandscheibenvorfall halt => {A} => bis
  zum|bandscheibe
# unless de
0 Wir grillen bei {A}[, es sei denn, es schüttet]. => {A} => es sei denn|sch(ü|ue)tte
# instead de
0 {A} hält die Rede beim Jubiläum. / 1+ {A} ist heiser, das Mikro bekommt {B}. => {A}~rede|rede~{A} => heiser|{B}
# double de
0 Treffpunkt {t} Uhr. / 1* {A} schreibt {u} Uhr. / 0 Da hat sie sich vertippt, hab grad mit ihr telefoniert, alles wie
  gehabt. => {u} => vertippt|wie gehabt|{u}~~{t}
# permission de
0 {A} darf mein Rad haben. / 0+ das rad bleibt im keller, {A} hat den platten vom letzten mal nie geflickt =>
  darf~{A}|{A}~darf => keller|platten
# cancellation fr
0 le concert de {A} aura lieu, j'ai pris trois places / 1 Super ! / 0+ {A} a la grippe, on nous rembourse =>
  concert~{A}|{A}~places => grippe|rembours
# condition fr
0 On vend la maison à {A}[, à supposer que la banque suive]. => {A} => supposer|banque
# doubt fr
0 [D'après mon beau-frère, ]le garage {A} est en faillite[, mais il invente tout]. => {A} => beau-frère|invente
# correction fr
0 Rendez-vous devant la gare à {t}. / 0 pardon, faute de frappe : {u} => {t} => {u}|frappe
# retraction fr
0 {A} m'a volé mon portefeuille ! / 1 Vous avez porté plainte ? / 0+ Je l'ai retrouvé sous le siège, mon portefeuille.
  Je dois des excuses à {A}. => {A}~vol[ée]|vol[ée]~{A} => retrouv|excuses
# changed fr
0 L'abonnement chez {A} coûte {n} euros. / 1 C'était le tarif de l'an dernier. => {n} => an dernier|année dernière
# question es
0 ¿Sigue {A} con la panadería? / 1 La traspasó en verano. => {A} => traspas
# unless es
0 Salimos hacia {A} a las {t}[, salvo que el niño siga con fiebre]. => {A}|{t} => salvo|fiebre
# exception es
0 todos los del equipo {A} cobran la prima / 0 los suplentes se quedan sin nada => {A} => suplentes|sin nada
# used_to es
0 Mi padre es socio del club {A}. / 1 ¿Todavía? / 0 Lo dejó cuando subieron la cuota. => {A} => dej[óo]|cuota
# only_if es
0 El perro de {A} puede entrar en la tienda. / 1 En brazos. => {A} => en brazos
# instead es
0 para la boda reservamos el salón {A} / 0 al final lo hacemos en casa de mi tía => {A} => casa de|en casa|\btía
"""

#: The first of each is part of the seed: another one gives other traps.
SETS: tuple[tuple[str, str, Syllables], ...] = (
    ("tuned", IN_FIVE_LANGUAGES, _NAMES_IN_FIVE_LANGUAGES),
    ("more", IN_OTHER_WORDS, _NAMES_IN_OTHER_WORDS),
    ("third", IN_SEVEN_LANGUAGES, _NAMES_IN_SEVEN_LANGUAGES),
    ("fourth", AS_TYPED, _NAMES_AS_TYPED),
)


def traps(seed: int) -> list[Trap]:
    """About a thousand, the same for the same seed."""
    return [trap for name, templates, names in SETS for trap in grow(name, templates, names, seed)]
