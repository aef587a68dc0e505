"""Traps that the engine may be tuned on: corrections as people type them, often without any word that tells of one."""

from __future__ import annotations

from benchmarks.evaluate.traps import Syllables, Trap, grow

SYLLABLES: Syllables = {
    "": (
        ("Gral", "Nuv", "Pesk", "Tyrn", "Wolm", "Cad", "Ulb", "Estr", "Hunj", "Rizt", "Sib", "Ovd", "Jast", "Lumb"),
        ("a", "e", "i", "o", "u"),
        ("beck", "dora", "fane", "gild", "hurst", "kesh", "lund", "mior", "nox", "pell", "rusk", "thal", "vane", "zin"),
    ),
}


def traps(seed: int) -> list[Trap]:
    """About four hundred, the same for the same seed."""
    return grow("fourth", TEMPLATES, SYLLABLES, seed)


TEMPLATES = r"""
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
