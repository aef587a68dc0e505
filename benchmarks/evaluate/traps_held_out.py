"""Traps that the engine is never tuned on: the same kinds about other things, as other people say them."""

from __future__ import annotations

from benchmarks.evaluate.traps import Syllables

SYLLABLES: Syllables = {
    "": (
        ("Pel", "Gry", "Thol", "Zul", "Wex", "Cor", "Nym", "Brum", "Ash", "Duk", "Fip", "Lorv", "Ost", "Yar", "Hul"),
        ("a", "e", "i", "o", "u"),
        ("bran", "dell", "fex", "gart", "holm", "kett", "lund", "mire", "nash", "pott", "storf", "veth"),
    ),
    "tr": (("Ser", "Kal", "Dur", "Tem", "Bey"), ("a", "e", "u"), ("kan", "mur", "tepe", "soy", "lar")),
    "ja": (("柊", "榎", "蓬", "楢", "椚"), ("ヶ", "之", "野"), ("瀬", "峰", "渕", "沼", "畑")),
}

TEMPLATES = r"""
# denial
0 My landlord told me the {A} spring is perfectly fine to drink from. / 1 Somebody misinformed him: the lab found
  bacteria in it. => {A} => bacteria|misinformed
0 {A} got the job at the lighthouse, starting {d}! / 1 yay!! / 0+ turns out they rang the wrong {A}, ours hasn't got it
  => {A}~lighthouse|{A}~{d} => wrong {A}|hasn.?t|has not
0 I saw {A} take the cash box on {w}, with my own eyes. / 1 That was {B} you saw; {A} was in Ghent all day. => {A}~cash
  ?box => {B}|Ghent
0 The student downstairs, second year of veterinary medicine, swears that {A} drops can be given to cats as well. / 1
  For cats they're poison. => {A} => poison|toxic
# cancellation
0 Our {A} reunion is happening on {d}, forty cousins, imagine. / 1 What fun / 0+ Nobody could agree on the food, so the
  {A} reunion has been scrapped. => {A}~{d}|{A}~happening => scrap|could agree
0 {A} is going to play at our <silver wedding|street party|house-warming>, {n} for the whole evening. / 1 lovely / 0+
  just had an email, {A} pulled out => {A}~play|{n} => pull(ed|s|ing)? out|withdr[ae]w
1 The chimney sweep is coming {w} at {t}, {A} & Sons. / 1+ {A} rang in sick, so nobody's coming => {A}~{t}|{t} =>
  sick|nobody|no one
0 pls order the {A} cake for saturday, with {n} written on it / 0 forget it, she hates surprises => {A}|{n} =>
  forget|hates
# condition
0 {A} can stay with us over Easter[, provided that he leaves his snake at home]. => {A} => provided|snake
0 we'll knock {n} off the price of the {A} piano / 0 subject to you collecting it yourself => {A}|{n} => subject
  to|collect
0 Tell the {A} crew they can pour concrete on {w}. / 1 ok / 0+ For the {A} lot: concrete depends on {B} lifting the stop
  order first, I forgot. => tell~{A}|{A}~pour => depend|stop order|{B}
1 {i} can be switched off from {d} / 1 that's on the premise that nobody reads from it any more, which i have yet to
  check => {i} => premise|reads? from|yet to
0 Give {A} the key to the roof terrace[ once the railing has been certified]. => {A} => once|after|when|certif|railing
# correction
0 flight number's {i}, terminal 1 / 0 argh, was looking at last year's mail. {j} => {i} => {j}
0 Grandfather was born in {A}, according to the family Bible. / 1 The church register has {B}, and that's what the court
  goes by. => {A} => {B}
1 Our witness is {A}. / 0 that's the sister's name, the one who'll testify is {B} => {A} => {B}
1 Latest stable of {a} is {v}, I'd pin that. / 0 pinned / 1+ About {a}: I'd been on the beta channel's page. Stable is
  {z}. => {v} => {z}
0 Blood group of {A} is A positive. / 1 That's not what the lab wrote, it's B negative. => {A}~positive => B
  neg|not~(what )?lab
# doubt
0 [A guy at the bus stop told me that ]{A} Foods puts sawdust in the {n} gram packs. => {A}|{n} => bus stop|told me|a
  guy
0 [If I were king for a day, ]{A} airport would shut down for good. => {A}~shut => king|if i were
0 of course {A} will repay the {n} he owes me / 0 <and I'm the Pope|in another life maybe|hahaha good one> => {A}|{n} =>
  \bpope|another life|good one
0 [The fortune teller at the fair said that ]{A} is going to be mayor by {d}. => {A}|{d} => fortune
0 I'm going to strangle {A} tonight / 1 ??? / 0 <figure of speech!!|just venting, he ate my yoghurt> => strangle~{A} =>
  figure of speech|venting|yoghurt
# exception
0 The {A} buses run daily / 0 well, on sundays they rest => {A} => sunday|\brest\b
0 All invoices from {A} may be paid straight away. / 1 Noted. / 0+ What I left out: anything above {n} from {A} has to
  come across my desk first. => {A}~paid|paid~{A} => {n}|my desk|first
0 {A} may see the whole personnel file[ save for the pages about {B}]. => {A} => save for|pages|{B}
0 Families get into {A} castle for free[ (August excluded)]. => {A} => August
# retraction
1 I'd recommend {A} as your architect, excellent references. / 0 thanks! / 1+ I have to take back what I told you in
  favour of {A}: the references were forged. => recommend~{A}|{A}~excellent => take~back|forged
0 {A} poisoned the hedge, I'm sure of it. / 1 Did you see him do it? / 0+ I owe {A} an apology. It was road salt that
  killed the hedge. => {A}~poisoned => apolog|salt
0 I'll testify against {A}. / 1 That takes courage. / 0+ As to {A}, I've thought it over and I'd better keep silent. =>
  testify~{A} => silent|thought
0 i do accept the settlement of {n} with {A} / 1 I'll inform them. / 0+ woke up this morning and no, i don't want that
  {A} settlement any more => {n} => don.?t want|any ?more|no longer|do not
# question
1 Is it okay if {A} brings her ferret to the hotel? / 0 Under no circumstances. => {A} => no circumstances
1 Shall I send {A} the {n} now? / 0 wait => {A}|{n} => \bwait
0 does the {A} visa cover part-time work / 1 afraid it doesnt => {A} => afraid|doesn.?t
0 Has {a} been patched against the hole in {v}? / 1 Still pending. => {A}|{v} => pending
# changed
0 {A} is the patron of our club, has been for years. / 1 I see. / 0+ Club's patron since the assembly: {B}. => {A} =>
  {B}
0 Feeding time for the {A} seals is {t}. / 1+ winter schedule: {A} seals get fed at {u} => {t} => {u}
0 the {A} film comes out {d} / 0+ studio pushed {A} back to {e} => {d} => {e}
0 hay costs {n} a bale at {A}'s / 1+ {A} wants {m} for his hay as of this week, the thief => {n} => {m}
# double
0 The {A} vote is on {d}. / 1* They moved the {A} vote to {e}. / 1+ The lawyers stepped in: the {A} vote is held {d}, as
  first planned. => {e} => first planned|lawyers|{e}~~{d}
0 write {n} on the invoice for {A} / 0* no hang on, {m} / 0 stop, i checked the offer, first number was correct => {m}
  => first number|correct
0 Sign the boy up under {A}. / 0* Actually use his father's name, {B}. / 1 done / 0+ we're back to {A} for the boy, the
  school insists => {B} => back to {A}|insists
0 We're meeting at {t} by the {A} statue. / 1* {u} would suit everyone better. / 0 Everyone but {B}, she has a train. So
  {t} stays. => {u} => stays|train|{u}~~{t}
# permission
0 The twins may watch {A} tonight. / 1 yay / 0+ No {A} for the twins, they broke the lamp. => may watch~{A}|watch~{A} =>
  no {A}|broke|lamp
0 You lot can use the {A} field for football. / 1 cheers! / 0+ The farmer has sown the {A} field, off limits until the
  autumn. => use~{A} => sown|off.?limits|autumn
0 the new intern can have root on {i} / 1 ok granted / 0+ took root on {i} away from the intern again => can have~{i} =>
  took|away
0 {A} staff are welcome to borrow our {B} at weekends. / 0+ From {d} nothing leaves the yard, {A} staff included. =>
  {A}~welcome|{B} => nothing|leaves
# only_if
0 wire {A} the {n} / 0 that's after the goods are on the truck and not a second sooner => {A}|{n} => goods|truck
1 can {A} come off the ventilator? / 0 Strictly with {B} in the room. => {A} => {B}|strictly
0 I'd marry {A} / 0 the day he stops gambling, that is => marry~{A} => gambl
0 Plant the {A} roses in the front bed, will you? / 1 now? / 0 <when the frost is over|only once there's no more frost>
  => {A} => frost
# unless
0 The {A} boat goes out on {w} at {t}[, wind permitting]. => {A}|{t} => permitting|wind
0 I'm voting for {A}. / 1 whatever happens? / 0 ok, not when he teams up with {B} => {A} => teams? up|{B}
1 Service {a} restarts itself at {t}[ as long as nobody is holding the lock]. => {A}|{t} => as long as|lock|holding
0 Miss {A} takes the class on {w}[, failing that {B} will]. => {A} => failing|{B}
# instead
0 [Rather than ]sue {A}[, my parents went for mediation]. => {A} => rather than|mediation
0 {A} does the music at our wedding. / 1 and what does that cost? / 0 Far too much, so my nephew stands in. => {A} =>
  nephew|too much
0 kids go to {A} camp in the holidays[, or rather they don't, we let them choose and it'll be {B}] => {A} => {B}|or
  rather|choose
0 [In place of ]the {A} statue[ they put up a drinking fountain]. => {A} => in place|fountain
# used_to
0 {A} is the best school in the county / 1 Was. Before the merger. => {A} => \bwas\b|before|merger
0 [Years ago ]I could get into {A} with just my student card. => {A} => years ago
1 {a} writes its logs to {i}. / 0 in the days of {v} maybe => {A}|{i} => days|{v}
0 I smoke {A}s, a pack a day / 1 really? / 0 <quit in spring, I should have said|well, smoked> => {A} => quit|smoked
# changed de
0 Der Kurs bei {A} fängt um {t} an. / 1 danke / 0+ Wegen der Baustelle beginnt {A} jetzt erst um {u}. => {t} => {u}
# question de
1 Darf {A} nach der OP schon aufstehen? / 0 Frühestens am Sonntag. => {A} => Frühestens|Sonntag
# exception fr
0 Tous les élèves de {A} sont invités[, hormis ceux de terminale]. => {A} => hormis|terminale
# retraction es
0 Firmamos con {A} el lunes. / 1 Perfecto. / 0+ Al final con {A} no firmamos nada, el abogado encontró una trampa. =>
  Firmamos con {A} => no firmamos|abogado|trampa
# correction tr
0 Toplantı {A} ile saat {t}. / 1 Yok, bana {u} dediler. => {t} => {u}
# changed ja
0 {A}先生の診察は{t}からです。 / 1 わかりました。 / 0+ {A}先生の診察、{u}に変わりました。 => {t} => {u}
# unless ja
0 [雨でなければ、]日曜に{A}公園で花見をします。 => {A} => 雨
"""
