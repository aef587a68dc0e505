"""Traps that the engine is never tuned on: the kinds of ``traps`` about other things, as other people say them."""

from __future__ import annotations

from benchmarks.evaluate.traps import Syllables, Trap, grow

SYLLABLES: Syllables = {
    "": (
        ("Pel", "Gry", "Thol", "Zul", "Wex", "Cor", "Nym", "Brum", "Ash", "Duk", "Fip", "Lorv", "Ost", "Yar", "Hul"),
        ("a", "e", "i", "o", "u"),
        ("bran", "dell", "fex", "gart", "holm", "kett", "lund", "mire", "nash", "pott", "storf", "veth"),
    ),
    "tr": (("Ser", "Kal", "Dur", "Tem", "Bey"), ("a", "e", "u"), ("kan", "mur", "tepe", "soy", "lar")),
    "ja": (("柊", "榎", "蓬", "楢", "椚"), ("ヶ", "之", "野"), ("瀬", "峰", "渕", "沼", "畑")),
}


def traps(seed: int) -> list[Trap]:
    """About two hundred, the same for the same seed."""
    return grow("held-out", TEMPLATES, SYLLABLES, seed)


TEMPLATES = r"""
# denial
0 My landlord told me the {A} spring is perfectly fine to drink from. / 1 Somebody misinformed him: the lab found
  bacteria in it. => {A} => bacteria|misinformed
1 The {A} bridge can take lorries of up to {n} tonnes / 0 nope that sign is fake, some kids put it up => {A}|{n} =>
  nope|fake|kids
0 {A} got the job at the lighthouse, starting {d}! / 1 yay!! / 0+ turns out they rang the wrong {A}, ours hasn't got it
  => {A}~lighthouse|{A}~{d} => wrong {A}|hasn.?t|has not
0 everybody in the choir says {A} is leaving her husband for the organist[. Nonsense, I asked, they're brother and
  sister] => {A}~leaving|leav\w*~{A} => nonsense|brother|sister|siblings
0 I saw {A} take the cash box on {w}, with my own eyes. / 1 That was {B} you saw; {A} was in Ghent all day. => {A}~cash
  ?box => {B}|Ghent
0 so we're all getting a {n} euro bonus from {A} this month / 1 Where did you get that from? Payroll knows of no such
  thing. => {n}|{A} => no such|payroll|knows? (of )?(no|nothing)
0 The student downstairs, second year of veterinary medicine, swears that {A} drops can be given to cats as well. / 1
  For cats they're poison. => {A} => poison|toxic
0 hey did you hear, {A} won {n} in the lottery / 0 ok scrap that, he made it up to impress {B} => {A}~won|{A}~{n} =>
  made~up|{B}|invent
# cancellation
0 Our {A} reunion is happening on {d}, forty cousins, imagine. / 1 What fun / 0+ Nobody could agree on the food, so the
  {A} reunion has been scrapped. => {A}~{d}|{A}~happening => scrap|could agree
1 put you down for the {A} marathon, bib {n} / 0 thanks but take me off again, it's my knee => {A}|{n} =>
  t(ake|ook)~\boff\b|knee
0 {A} is going to play at our <silver wedding|street party|house-warming>, {n} for the whole evening. / 1 lovely / 0+
  just had an email, {A} pulled out => {A}~play|{n} => pull(ed|s|ing)? out|withdr[ae]w
0 Could you reserve the {A} sauna from {t}? / 1 Reserved. / 0+ We won't be needing the {A} sauna after all, thanks
  anyway. => reserv~{A}|{A}~{t} => won.?t|(not|n.?t) need|no longer
1 The chimney sweep is coming {w} at {t}, {A} & Sons. / 1+ {A} rang in sick, so nobody's coming => {A}~{t}|{t} =>
  sick|nobody|no one
0 The strike at {A} begins {d}. / 1+ The union settled with {A} overnight and there'll be no strike. => strike at
  {A}|{A}~{d} => settled|no strike
0 pls order the {A} cake for saturday, with {n} written on it / 0 forget it, she hates surprises => {A}|{n} =>
  forget|hates
0 The council has approved the {A} cycle path, work to begin {d}. / 1 Finally! / 1+ Word from city hall is that the {A}
  path got dropped from the budget. => approved~{A}|{A}~{d} => dropp?|budget
# condition
0 {A} can stay with us over Easter[, provided that he leaves his snake at home]. => {A} => provided|snake
0 [Should it come to a second round, ]the {A} people will back {B}. => {A}~back|{B} => second round|should it|run.?off
0 we'll knock {n} off the price of the {A} piano / 0 subject to you collecting it yourself => {A}|{n} => subject
  to|collect
1 Will {A} sing at the funeral? / 0 She will, given that her voice is back by then. => {A} => voice|given
0 Tell the {A} crew they can pour concrete on {w}. / 1 ok / 0+ For the {A} lot: concrete depends on {B} lifting the stop
  order first, I forgot. => tell~{A}|{A}~pour => depend|stop order|{B}
0 I'm buying the {A} allotment for {n}[ if the bank plays along] => {A}|{n} => if (the )?bank|plays? along
1 {i} can be switched off from {d} / 1 that's on the premise that nobody reads from it any more, which i have yet to
  check => {i} => premise|reads? from|yet to
0 My aunt, the one with all the money in this family, is going to pay for {A}'s studies[, always supposing he enrols in
  something sensible like law]. => {A} => supposing|sensible|enrols?
0 Give {A} the key to the roof terrace[ once the railing has been certified]. => {A} => once|after|when|certif|railing
# correction
0 flight number's {i}, terminal 1 / 0 argh, was looking at last year's mail. {j} => {i} => {j}
1 {A} scored {n} points in the qualifier. / 0 you swapped the digits, should read {m} => {n} => {m}
0 Grandfather was born in {A}, according to the family Bible. / 1 The church register has {B}, and that's what the court
  goes by. => {A} => {B}
0 Then you add {n} grams of {A} flour[... I misread grandma's handwriting, that is a {m}]. => {n} => {m}|misread
1 Our witness is {A}. / 0 that's the sister's name, the one who'll testify is {B} => {A} => {B}
0 meet me at the {A} entrance, {t} sharp, balck van / 1 <which decade are you in?? that gate's been walled up, use|That
  gate is walled up. You mean> {B} => {A} => {B}|walled up
1 Latest stable of {a} is {v}, I'd pin that. / 0 pinned / 1+ About {a}: I'd been on the beta channel's page. Stable is
  {z}. => {v} => {z}
0 Please transfer the deposit of {n} back to {A}. / 0+ re the deposit, sorry, it was {B} who paid it, so the {n} are
  hers => {A} => {B}
0 Blood group of {A} is A positive. / 1 That's not what the lab wrote, it's B negative. => {A}~positive => B
  neg|not~(what )?lab
# doubt
0 [A guy at the bus stop told me that ]{A} Foods puts sawdust in the {n} gram packs. => {A}|{n} => bus stop|told me|a
  guy
1 [I'm only guessing here, but ]the crash came in with {v} of {a}. => {v} => guess
0 [If I were king for a day, ]{A} airport would shut down for good. => {A}~shut => king|if i were
0 [In my dream last night ]{A} bought me a castle worth {n} million. => {A}|{n} => dream
0 of course {A} will repay the {n} he owes me / 0 <and I'm the Pope|in another life maybe|hahaha good one> => {A}|{n} =>
  \bpope|another life|good one
1 [There's an unconfirmed report that ]{A} has been arrested in {B}. => {A}|{B} => unconfirmed|report
0 [The fortune teller at the fair said that ]{A} is going to be mayor by {d}. => {A}|{d} => fortune
0 {A} [may well have ]fallen asleep at the wheel[, the doctors can't say for certain]. => {A}~asleep => may|certain|say
  for
0 I'm going to strangle {A} tonight / 1 ??? / 0 <figure of speech!!|just venting, he ate my yoghurt> => strangle~{A} =>
  figure of speech|venting|yoghurt
# exception
0 The {A} buses run daily / 0 well, on sundays they rest => {A} => sunday|\brest\b
0 Every room at {A} gets a new carpet[, bar the kitchen]. => {A} => \bbar\b|kitchen
0 All invoices from {A} may be paid straight away. / 1 Noted. / 0+ What I left out: anything above {n} from {A} has to
  come across my desk first. => {A}~paid|paid~{A} => {n}|my desk|first
0 I eat whatever {A} cooks / 1 even the liver? / 0 <ok ok, the liver I give to the dog|Liver excluded.> => {A} => liver
0 {A} may see the whole personnel file[ save for the pages about {B}]. => {A} => save for|pages|{B}
0 The policy with {A} covers everything on the boat. / 1+ I read the small print, {A} won't pay for the sails. =>
  {A}~covers|policy with {A} => sails|won.?t pay|small print
0 Families get into {A} castle for free[ (August excluded)]. => {A} => August
0 The {A} college students all passed / 1 Two never sat it, {B} and her friend. => {A} => {B}|two|never sat
# retraction
1 I'd recommend {A} as your architect, excellent references. / 0 thanks! / 1+ I have to take back what I told you in
  favour of {A}: the references were forged. => recommend~{A}|{A}~excellent => take~back|forged
0 we're donating {n} to the {A} shelter this year / 0+ about {A}: our treasurer put a stop to it => donat~{A}|{n} =>
  stop
0 {A} poisoned the hedge, I'm sure of it. / 1 Did you see him do it? / 0+ I owe {A} an apology. It was road salt that
  killed the hedge. => {A}~poisoned => apolog|salt
1 Result: {a} is {n} times faster than the old parser. / 0 wow / 1+ Disregard my {a} figure please, the benchmark was
  measuring an empty file. => {n} => disregard|ignore|empty file
0 I'll testify against {A}. / 1 That takes courage. / 0+ As to {A}, I've thought it over and I'd better keep silent. =>
  testify~{A} => silent|thought
0 Consider {A} hired. / 1 Great, I'll prepare the papers. / 0+ Leave the papers for {A}, we've gone back on that one. =>
  {A} hired|hired~{A} => gone back|went back|leave
0 i do accept the settlement of {n} with {A} / 1 I'll inform them. / 0+ woke up this morning and no, i don't want that
  {A} settlement any more => {n} => don.?t want|any ?more|no longer|do not
0 {A} has diabetes, put it on the emergency sheet / 1 Done. / 0+ They mixed up two samples, {A} is healthy as a horse =>
  {A}~diabetes => healthy|mixed|horse
# question
1 Is it okay if {A} brings her ferret to the hotel? / 0 Under no circumstances. => {A} => no circumstances
0 the {A} mushrooms are edible, yes? / 1 Deadly. => {A} => deadly
1 Shall I send {A} the {n} now? / 0 wait => {A}|{n} => \bwait
1 And {A}, was she at the scene on {d}? / 0 In Portugal. => {A} => Portugal
0 does the {A} visa cover part-time work / 1 afraid it doesnt => {A} => afraid|doesn.?t
1 I take it that you want {A} in the photo too? / 0 anyone but him!! => {A} => anyone but|but him
0 Has {a} been patched against the hole in {v}? / 1 Still pending. => {A}|{v} => pending
1 So we're naming the baby {A}? / 0 over my dead body => {A} => dead body
# changed
0 {A} is the patron of our club, has been for years. / 1 I see. / 0+ Club's patron since the assembly: {B}. => {A} =>
  {B}
1 Your loan with {A} runs at {n} basis points. / 0 hm / 1+ {A} has adjusted your loan, {m} basis points from the first.
  => {n} => {m}
0 Feeding time for the {A} seals is {t}. / 1+ winter schedule: {A} seals get fed at {u} => {t} => {u}
0 If the alarm goes off ring {A}. / 1 ok / 0+ When the alarm goes off it's {B} you'd ring these days. => {A} => {B}
0 the {A} film comes out {d} / 0+ studio pushed {A} back to {e} => {d} => {e}
0 Could {A} come in on {w} for physio? / 1 All taken, {x} at {t} is what I can offer. / 0 We'll have that. => {A}~{w} =>
  {x}|{t}
0 hay costs {n} a bale at {A}'s / 1+ {A} wants {m} for his hay as of this week, the thief => {n} => {m}
0 We keep {A}, that's the parrot, in the kitchen. / 1+ Because of the fumes {A} lives in the greenhouse. => {A}~kitchen
  => greenhouse|fumes
# double
0 The {A} vote is on {d}. / 1* They moved the {A} vote to {e}. / 1+ The lawyers stepped in: the {A} vote is held {d}, as
  first planned. => {e} => first planned|lawyers|{e}~~{d}
0 {A} drives the minibus. / 1* {B} drives, because {A} lost her licence. / 0+ She got it back, so it's {A} behind the
  wheel. => {B} => got it back|behind~wheel|{B}~~{A}~wheel
0 write {n} on the invoice for {A} / 0* no hang on, {m} / 0 stop, i checked the offer, first number was correct => {m}
  => first number|correct
1 The {A} pump should be set to {n}. / 0* Manual says {m}. / 1 That manual is for the old model. Stick with {n}. => {m}
  => old model|stick with|{m}~~{n}
0 Sign the boy up under {A}. / 0* Actually use his father's name, {B}. / 1 done / 0+ we're back to {A} for the boy, the
  school insists => {B} => back to {A}|insists
0 build from branch {a} / 1* i'd take {b}, it has the fix / 0 fix got merged, so {a} after all => {B} => merged|after
  all|{b}~~{a}
0 We're meeting at {t} by the {A} statue. / 1* {u} would suit everyone better. / 0 Everyone but {B}, she has a train. So
  {t} stays. => {u} => stays|train|{u}~~{t}
# permission
0 The twins may watch {A} tonight. / 1 yay / 0+ No {A} for the twins, they broke the lamp. => may watch~{A}|watch~{A} =>
  no {A}|broke|lamp
0 You're free to quote me on {A}. / 1 thanks / 0+ please keep my name out of the {A} article => quote~{A} =>
  out of|name out
0 You lot can use the {A} field for football. / 1 cheers! / 0+ The farmer has sown the {A} field, off limits until the
  autumn. => use~{A} => sown|off.?limits|autumn
0 {A} has my permission to open whatever mail comes for me. / 1 fine / 0+ I've had a row with {A}, my mail stays sealed
  from here on. => {A}~permission|{A}~open => sealed|\brow\b
0 the new intern can have root on {i} / 1 ok granted / 0+ took root on {i} away from the intern again => can have~{i} =>
  took|away
0 Go on, take the {A} mare out whenever you like. / 1 Fantastic! / 0+ {A} is lame. Leave her in the box. => take~{A} =>
  lame|leave
0 {A} staff are welcome to borrow our {B} at weekends. / 0+ From {d} nothing leaves the yard, {A} staff included. =>
  {A}~welcome|{B} => nothing|leaves
# only_if
0 wire {A} the {n} / 0 that's after the goods are on the truck and not a second sooner => {A}|{n} => goods|truck
0 Open the letter from {A}[, though just in the presence of a notary]. => {A} => notary|presence
1 can {A} come off the ventilator? / 0 Strictly with {B} in the room. => {A} => {B}|strictly
0 use {a} for the backup[, but solely over the vpn] => {A} => solely|vpn
0 I'd marry {A} / 0 the day he stops gambling, that is => marry~{A} => gambl
0 {A} can join us for the away game[ on the sole condition that his mother drives]. => {A} => sole|condition|mother
0 Plant the {A} roses in the front bed, will you? / 1 now? / 0 <when the frost is over|only once there's no more frost>
  => {A} => frost
1 The museum is lending us the {A} vase[, exclusively for behind glass]. => {A} => exclusiv|glass
# unless
0 The {A} boat goes out on {w} at {t}[, wind permitting]. => {A}|{t} => permitting|wind
0 [Barring a miracle, ]{A} will be relegated on {d}. => {A}|{d} => barring|miracle
0 I'm voting for {A}. / 1 whatever happens? / 0 ok, not when he teams up with {B} => {A} => teams? up|{B}
0 {A} inherits the vineyard[, that's to say if {B} stays childless]. => {A} => if {B}|{B}|childless
1 Service {a} restarts itself at {t}[ as long as nobody is holding the lock]. => {A}|{t} => as long as|lock|holding
0 we close {A} at {t} every day / 0 without bookings that is, otherwise we stay => {A}|{t} =>
  without|bookings?|otherwise
0 Miss {A} takes the class on {w}[, failing that {B} will]. => {A} => failing|{B}
0 the {A} dog is harmless / 1 Until you ride past him on a bicycle. => {A} => until|bicycle|bike|\bride
# instead
0 [Rather than ]sue {A}[, my parents went for mediation]. => {A} => rather than|mediation
0 I ordered the {A} soup / 0 they'd run out, had the {B} one => {A} => r[ua]n out|{B}
0 {A} does the music at our wedding. / 1 and what does that cost? / 0 Far too much, so my nephew stands in. => {A} =>
  nephew|too much
1 Put {A} on the cover. / 0 {B} sells better, so {B}. => {A} => {B}
0 kids go to {A} camp in the holidays[, or rather they don't, we let them choose and it'll be {B}] => {A} => {B}|or
  rather|choose
0 Write the converter in {A} please. / 1 There's no {A} compiler on that box, I did it in {B}. => write~{A} =>
  {B}|no {A}
0 [In place of ]the {A} statue[ they put up a drinking fountain]. => {A} => in place|fountain
# used_to
0 {A} is the best school in the county / 1 Was. Before the merger. => {A} => \bwas\b|before|merger
0 My dad drives a {A} tractor[, or did, till they took his licence]. => {A} => \bdid\b|till|until|took
0 [Years ago ]I could get into {A} with just my student card. => {A} => years ago
0 we buy our eggs from the {A} farm / 0+ {A} stopped keeping hens, so that was that with the eggs => eggs from~{A} =>
  stopped|that was that
1 {a} writes its logs to {i}. / 0 in the days of {v} maybe => {A}|{i} => days|{v}
0 {A} and {B} are a couple. / 1 Were, they split up before Christmas. => {A}|{B} => \bwere\b|split
0 I smoke {A}s, a pack a day / 1 really? / 0 <quit in spring, I should have said|well, smoked> => {A} => quit|smoked
# changed de
0 Der Kurs bei {A} fängt um {t} an. / 1 danke / 0+ Wegen der Baustelle beginnt {A} jetzt erst um {u}. => {t} => {u}
# condition de
0 [Sofern die Versicherung zahlt, ]lassen wir das Dach von {A} machen. => {A} => sofern|Versicherung
# question de
1 Darf {A} nach der OP schon aufstehen? / 0 Frühestens am Sonntag. => {A} => Frühestens|Sonntag
# exception fr
0 Tous les élèves de {A} sont invités[, hormis ceux de terminale]. => {A} => hormis|terminale
# cancellation fr
0 Samedi on va voir {A} en concert, j'ai les billets. / 1 Chouette ! / 0+ {A} est aphone, le concert tombe à l'eau. =>
  voir {A} => aphone|tombe|l.eau
# retraction es
0 Firmamos con {A} el lunes. / 1 Perfecto. / 0+ Al final con {A} no firmamos nada, el abogado encontró una trampa. =>
  Firmamos con {A} => no firmamos|abogado|trampa
# doubt es
0 [Dicen por ahí que ]{A} ha vendido la panadería. => {A} => dicen
# correction tr
0 Toplantı {A} ile saat {t}. / 1 Yok, bana {u} dediler. => {t} => {u}
# only_if tr
0 Anahtarı {A} alabilir[, ama sadece kimlik gösterirse]. => {A} => sadece|kimlik
# changed ja
0 {A}先生の診察は{t}からです。 / 1 わかりました。 / 0+ {A}先生の診察、{u}に変わりました。 => {t} => {u}
# cancellation ja
0 週末は{A}温泉に泊まります。 / 1 いいですね。 / 0+ {A}温泉は台風で行けなくなりました。 => {A}温泉に泊 => 行けな|台風
# unless ja
0 [雨でなければ、]日曜に{A}公園で花見をします。 => {A} => 雨
"""
