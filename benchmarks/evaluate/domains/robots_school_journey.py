"""Held out: warehouse robots, an evening language school, a family's long journey."""

from __future__ import annotations

from benchmarks.evaluate.conversations import Domain

_PEOPLE = """
person: {first} {last}
first: Agnieszka; Baptiste; Caspian; Dorothea; Eirik; Femke; Goran; Hortense; Ismail; Juniper; Kwame; Ludmila; Mateo; \
Nadezhda; Ottoline; Priya; Rupert; Saoirse; Tobias; Ulla; Vivek; Xenia; Yolanda; Zoltan
last: Achterberg; Bellweather; Cardoso; Dunphy; Ekström; Figueroa; Gallagher; Hashimoto; Ivanova; Jarrett; Kovacs; Lemaire; \
Mbeki; Novotny; O'Dowd; Petrakis; Rosenblatt; Stavros; Thackeray; Umarov; Villanueva; Whitlock; Yildirim; Zawadzki
"""
_PROSE = """
As far as {topic} goes, {thing} gets more attention than it deserves and {aspect} a good deal less.
My suggestion would be to try {act} on a small scale and look at {aspect} before anybody commits to more.
Some swear one can forget about {topic} after {few} weeks, others never see the end of it.
It helps to write down who benefits from {thing}, since the answer is often nobody in particular.
Seen from a distance, {topic} and {topic2} are the same question asked by two different people.
Whether {act} pays off hinges on {aspect}, and on how patient everyone is with {thing}.
For what it's worth, I found about {n} accounts of {act} going well and rather fewer of it going badly.
You might also ask what would happen if you did nothing about {topic} until next season.
The usual advice is to get {thing} first; I am less convinced, because {aspect} rarely improves through it.
With {act} the first {few} attempts tend to be clumsy, after which it becomes routine.
Nearly everything written on {topic} was written by somebody who sells {thing}.
The point about {aspect} is fair, though in my experience {aspect2} decides more often.
Between {act} and {act2} the difference is smaller than it sounds.
One more angle: {thing} can be undone, {topic} usually cannot.
I'd keep {aspect} and {aspect2} apart in your head, they pull in opposite directions.
Lots of people combine {thing} with {thing2}, which is pleasant but costs {aspect}.
With {topic} much is down to expectations, and those can be talked about beforehand.
As so often the boring option, {act}, turns out to be the sturdy one.
Give it {few} days, then compare how {aspect} has developed, and adjust.
There's a school of thought that treats {thing} as optional; it has a point as far as {aspect} goes.
If I may add something on {topic}: the first impression is seldom the right one.
Costs vary wildly, anything between {n} and several thousand, mostly driven by {aspect}.
"""
#: What small talk is about; nobody is going to need it later.
_EVERYDAY = """
snack: cheese scones; leftover pizza; instant noodles; plum crumble; a burnt waffle; beetroot crisps; cold pierogi; rice \
pudding; a squashed banana; fish fingers; spinach pie; liquorice; mint tea; a pretzel the size of my head; tomato toast
pastime: fencing; the ukulele; train spotting; jigsaw puzzles; karaoke; fly fishing; pinball; macramé; archery; stand-up \
comedy; geocaching; juggling; calligraphy; petanque; model railways; cold-water swimming
creature: a squirrel; the postman's dog; a heron; three pigeons; a very fat cat; a bat; a hornet; an escaped tortoise; a \
peacock; some geese; a weasel; a stag beetle
kin: sister; father-in-law; great-aunt; nephew; stepson; granddad; roommate; neighbour; ex; goddaughter; mum; landlady
blunder: put salt in my coffee; got on the wrong bus; left my umbrella in a taxi; called my boss mum; forgot my own PIN; \
ironed a hole into a shirt; stepped in a puddle; replied to all; lost my keys in the freezer; walked into a glass door
sky: fog; grey skies; thunder; a sandstorm; icy wind; sunshine; sideways rain; snow; a muggy heat; a red sunset
show: a baking contest; a Danish crime series; some dinosaur film; the snooker final; a talk show; a film about bees; an \
opera on telly; that space series; a quiz; a cycling race
temper: cranky; over the moon; sleepy; jumpy; peckish; philosophical; stiff; chuffed; homesick; silly; wide awake
"""
_CHAT = """
so i {blunder} today. {temper} doesn't begin to describe it / Ouch. Shall we take it slowly, then?
Greetings from the train, nothing but {sky} out there. / Safe travels! I'm here whenever you have signal.
{first}'s {kin} has started with {pastime}, at eighty! / Good for them, it is never too late.
have you seen {show}? {first} cried for {few} minutes straight / I haven't, but that sounds like a recommendation.
There's {creature} sitting on our bins again, looking at me as if I owed it {n} euros. / Perhaps it keeps the accounts.
Lunch was {snack}. Don't ask. / I won't! Onwards, then.
My {kin} phoned, an hour about {pastime}, I just said mhm / A patient listener is worth a lot.
Sorry for the typos, I'm typing with one hand, the other holds {snack}. / No worries at all, I understand you fine.
what a week. {sky}, {few} meetings a day and somebody microwaved {snack} in the office / That's a lot to bear at once.
Is it normal to be {temper} by {time}? Asking for a friend. / Tell your friend it is quite common.
I once met {person} in a lift and said nothing for {few} floors / It happens to the best of us.
Where did you learn all this? / From a great deal of reading, not from doing, I should add.
heh, good point / Thanks! Where to next?
can you say that again but like i'm twelve / Sure. Think of {topic} as a way to keep {aspect} in check, with {thing} doing the heavy lifting.
Just wondering, no need to act on it: is {act} something people still do? / Some do, chiefly for the sake of {aspect}.
Wait, someone's at the door. / Take your time.
never mind that was the {kin} with {snack} / A welcome interruption, surely.
do you think {first} was offended yesterday? i only said that {pastime} isn't a sport / I'd be surprised if that were held against you.
And what does one do about {topic}, in general? / Generally one starts from {aspect}, looks at {thing} and leaves the rest for later.
We saw {creature} at {time} this morning, the children named it {first}. / A fine name for it.
I'm so done with {sky}. / Hopefully it clears up by {day}.
thx, u r a star / Happy to help!
Hello there. New week, new luck. / Hello! Ready when you are.
My {kin} thinks you're a real person sitting somewhere, I've given up explaining. / I'm flattered. Please pass on my greetings.
no idea what i wanted to say now / It will come back to you, I'm sure.
{first} won {few} rounds of {pastime} against me, and it's only {day} / Revenge is a dish best served after dinner.
"""
_BEFORE = """
Hi again.
ok next thing
Got {snack} in front of me, so forgive the crumbs.
So.
Just back from {pastime}, {temper} but alive.
Oh, this reminds me.
My {kin} kept me on the phone, sorry.
While I think of it.
Quick one between two meetings.
Leaving {topic} aside for a moment.
Hello from under {sky}, hope you're well.
Yes, that makes sense, more or less.
Funny that you bring up {topic}.
Before {first} comes back from lunch.
"""
_AFTER = """
Anyway, gotta run.
What's your take on {topic}?
There was something else but it has slipped my mind.
Right, tea.
can we go on with {topic} afterwards?
{first} says hi, by the way.
How does {thing} fit into all this?
Off to {pastime} in a bit.
Is {aspect} still a worry, in your opinion?
Sorry, long day.
"""
_CONFIRMS = """
Alright, thanks for telling me.
Sure thing.
Okay, I've taken that in. Do you want to carry on with {topic}?
Thanks, that's clear. There is still {thing} on my list, whenever you like.
Makes sense to me.
Very well. In the meantime I can read up on {topic}.
Will do.
"""
_COMMON = {"prose": _PROSE, "before": _BEFORE, "after": _AFTER, "confirms": _CONFIRMS}

ROBOTS = Domain(
    name="warehouse robots",
    pools=_PEOPLE
    + _EVERYDAY
    + """
module: picker-arm; lane-planner; dock-charger; pallet-scanner; fleet-router; conveyor-bridge; shelf-mapper; battery-guard; \
tote-sorter; lift-control; label-reader; estop-monitor; wheel-odometry; gripper-cam; aisle-radio; weight-check
zone: cold store; mezzanine; returns bay; loading ramp; bulk aisle; packing line; quarantine cage; charging hall; \
small-parts tower; test track; cross-dock; canteen corridor; freight lift; pallet yard
board: motor board; lidar unit; radio module; safety relay; encoder board; brake controller; bumper sensor; battery pack; \
gripper unit; camera head; charging module; wheel drive; status display; operator panel
client: Norlager; Hexafood; Brambury Retail; Papyrion; Kitewell; Zandbergen; Toyvault; Medisupply; Olive & Rye; Ferrobolt; \
Lunaprint; Castellan Shoes
vendor: Akimoto Drives; Silbertal; Pacific Relay; Dunmore Electronics; Kestrel Parts; Volta Nord; Hagen & Roth; Sunwoo
library: ROS; MQTT; ZeroMQ; SQLite; Zephyr; FreeRTOS; Protobuf; CANopen; gRPC; Yocto; Bazel; Rust; Lua; Modbus
approach: priority lanes; round-robin charging; floor markers; a shadow fleet; a fixed timetable; zone locks; one-way aisles; \
a watchdog reboot; dual encoders; dead reckoning; a token per aisle; auction bidding; depth cameras
measure: mesh fencing; corner mirrors; a second gate; rubber kerbs; warning lamps; a foot bridge; floor tape; a light curtain; \
speed bumps; swing doors; an extra camera
made: 3D-printed; milled from aluminium; cast in resin; bent from sheet steel; laser-cut; bought off the shelf
colour: teal; magenta; plain black and white; amber; navy; olive
shift: the night shift; the lunch break; stocktaking; shift change; the cleaning hour; the fire drill
speed: 0.4 m/s; 0.6 m/s; 0.9 m/s; 1.1 m/s; 1.3 m/s; 1.7 m/s
hotel: Ibis; Gasthof Linde; Park Inn; Zur Post; Hotel Mercator; Garni Elena
topic: collision avoidance; path planning; battery ageing; wheel slip; over-the-air updates; safety cases; fleet simulation; \
fault codes; sensor fusion; shift handover; wireless roaming; spare-part stock
thing: a simulator; a heat map; a second lidar; a brake test; a spare robot; a log viewer; a load cell; a kill switch; a \
test rig; a checklist
act: replaying the logs; slowing down the fleet; swapping the tyres; remapping at night; staging the rollout; renting \
robots; labelling by hand; running two maps in parallel
aspect: uptime; safety; noise; wear; operator trust; battery life; picking speed; floor space; spare parts; training effort
""",
    facts={
        "constraint": """
u robots in the <{zone}> are [not allowed to go faster than {speed}], thats from the insurer and it wont change.
u Firmware for the <{board}> is [only ever flashed by cable], please, over the air we have bricked {few} of them already.
u since the accident with the forklift the works council insists that [somebody stands at the e-stop] whenever we try anything out in the <{zone}>.
u You're welcome to open pull requests on <{module}>, but [merging is for {person} alone].
u It's in the contract with <{client}> that [badge numbers of their staff never show up] in any log or screenshot, and they do check.
u [Dont touch the calibration files] of <{module}>!! took {first} three nights to get them right.
a Should I mail {client} myself about the fault in <{module}>? / u [nope, everything to customers goes through {person}].
u When you quote measurements from the <{zone}> you [must state the battery level] with them, otherwise nobody can compare anything.
u the <{zone}> has to be [left alone during {shift}], there are people on foot everywhere then.
u For the record: <{module}> [may not phone home]. Not to us, not to the supplier, not to anybody.
u And kindly [check with {person}] each time before you take a robot out of the <{zone}>, even if it's for five minutes.
u a <{board}> that fell down [goes in the scrap bin, no matter how good] it looks, we are strict about this
""",
        "preference": """
u Honestly I find [{approach}] nicer to debug, so if there's a choice to be made in <{module}>, that.
u could you give me anything about <{topic}> [as bullet points], i read it on my phone between two forklifts.
u Me, I would always take [{library}] over {library2} for something like <{module}>.
u the folks at <{client}> are happier when a report comes [as a PDF with pictures], they don't open spreadsheets.
u in <{module}> [snake_case for everything], that's how my brain works.
u {first} finds the plots from the <{zone}> easier to read [with time going downwards], and frankly so do I.
u If it's all the same to you, name the variables in <{module}> [after the part numbers].
u Speaking of the <{board}>, I'm happiest with [spares from {vendor}], the cheap ones rattle.
u When something breaks in <{module}> I'd sooner [see the raw log than a summary].
u would be lovely if the graphs for <{client}> were in [{colour}].
u i like it when estimates for <{module}> come [in half days], hours are a lie anyway.
""",
        "decision": """
u ok so <{module}> is going to use [{approach}]. done deal
u We talked it through on the phone and the <{zone}> gets [{measure}], the rest can wait for the next budget.
a For <{module}>, do you want to stay on {library} or switch to {library2}? / u [{library2}], and let's not reopen that.
u Having slept on it: [no new features] in <{module}> this quarter, the pilot eats all our time.
u {first} won the coin toss, ha, so the housing of the <{board}> will be [{made}].
u we [turned down the extension] that <{client}> asked for.
u The board signed off on [buying {few} more chargers] for the <{zone}>, so that's that.
a Shall I plan a rewrite of <{module}>, or patch the old code once more? / u [patch it], a rewrite needs a quieter year.
u I told {person} this morning that the trial in the <{zone}> [ends without a phase two], they took it well.
u after {n} runs on two floors and a shouting match between {first} and {first2} we [take the sensors off the ceiling] in the <{zone}>, finally.
a There are quotes from {vendor} and from {vendor2} for servicing the <{board}>. / u Sign with [{vendor2}].
u <{client}> will get [the source code in escrow], I gave in.
""",
        "number": """
u the floor of the <{zone}> takes [{n} kg per square metre], says the structural engineer
u We clocked <{module}> at [{n} ms] from trigger to answer.
u <{client}> is paying [{big} euros] a month for the pilot and grumbels about every cent of it.
u btw {first} crawled around the <{zone}> yesterday and counted [{n} QR markers] on the floor.
a Going by the trace, <{module}> drops [{decimal} percent] of its frames under load.
u a new <{board}> sets us back [{n} euros], plus shipping.
u <{module}> eats up to [{n} MB] of memory on the robot.
u It is [{n} metres] from one end of the <{zone}> to the other, I walked it with the measuring wheel.
u in the contract <{client}> agreed to [{decimal} hours] of downtime a year.
u I mean, if you think that <{module}> has [{big} lines] of code by now and one maintainer who hates it, it's a wonder anything moves.
t battery report <{zone}>: mean [{n} cycles], worst cell ok
u how long does a <{board}> live? {first} says [{big} hours] if its kept dry
""",
        "name": """
u The person who knows <{module}> inside out is [{person}], mornings only though.
u at <{client}> we deal with [{person}].
u For the <{zone}> you need a key, which is in [{person}]'s drawer.
u got a very angry call from [{person}], aparently the shift lead in the <{zone}>, about scratches in the epoxy.
u whoever asks about the layout of the <{board}>: a freelancer did that for us, [{person}], hard to reach.
a From the sign-offs it looks as if [{person}] approved the last safety case for the <{zone}>.
u Our sales contact for the <{board}>: [{person}].
u While {first} is on parental leave [{person}] reviews <{module}>.
u Do you know [{person}]? Going to be our inspector at <{client}>, very strict I am told.
u The drawings of the <{zone}> were made by one [{person}], whose handwriting nobody can read.
""",
        "date": """
u <{client}> comes to see a demo on [{date}].
u they hand over the <{zone}> to us [{date}], keys and all.
u Please bear in mind that the maker stops selling the <{board}> on [{date}].
u code freez for <{module}>: [{date}].
u I'm having my knee done on [{date}], nothing dramatic, but questions about <{module}> should reach me before that
u the inspectors will be in the <{zone}> on [{date}] and they want coffee and a table.
a The portal lists [{date}] as the delivery day for the <{board}>.
u our invoice to <{client}> is due [{date}].
u I think I've said it before, <{module}> needs its certificate by [{date}] or the whole rollout slips to next year.
u The sprinklers in the <{zone}> get tested on [{date}], cover your laptops.
""",
        "change": """
u <{module}> polls every [{n} ms] at the moment. >> u fiddled with the polling of <{module}> a bit, it's every [{n2} ms] since this morning.
u The pilot at <{client}> begins [{date}]. >> u Just off the phone with <{client}>, kick-off is [{date2}] and that's from the top.
u we get the <{board}> from [{vendor}]. >> u let down once too often. the <{board}> comes from [{vendor2}] from here on.
u Currently there are [{n} robots] working the <{zone}>. >> u since the returns wave it's [{n2} robots] in the <{zone}>
u [{person}] is product owner for <{module}>. >> u Small reshuffle, effective today: product owner for <{module}> is [{person2}].
u On the robots <{module}> is at [{version}]. >> u all robots reflashed over night, <{module}> [{version2}] everywhere.
u Stand-up about the <{zone}> is at [{time}]. >> u {first} has to drop the kids off first, could everyone come to the <{zone}> stand-up at [{time2}] from tomorrow.
u We keep the logs of <{module}> for [{n} days]. >> u legal had a look at it, logs from <{module}> are to be kept [{n2} days].
u <{client}> ordered [{n} licences]. >> u <{client}> came back to us, it's [{n2} licences] they need.
u the visitors from <{client}> sleep at the [{hotel}]. >> u Fully booked, as it turns out. I put the <{client}> people into the [{hotel2}].
u screws on the <{board}> are tightened to [{n} Ncm], don't ask me why >> u After the third stripped thread the screws on the <{board}> get [{n2} Ncm].
""",
        "identifier": """
t flashed <{board}> ok, build [fw-{hash}], {n} kB
t {time} ERROR <{module}> fault [F{n}-{few}] cleared after reset
t RMA opened for <{board}>: [{code}]
t merged into <{module}>: [{hash}] ({few} files changed)
t map of <{zone}> exported to [maps/{hash}.pgm]
u the sticker on the <{board}> says [{code}-{n}], if that helps.
u order number from <{client}> is [{code}], you'll need it for the invoice.
t panic in <{module}>: [assert_{hash}] line {n}
t bench run of <{board}> stored as [bench-{hash}]
a The crash in <{module}> is filed as [BUG-{n}{few}], I attached the trace.
t simulation of <{zone}> finished, recording [bag_{hash}]
""",
    },
    chat=_CHAT
    + """
the robots are blinking at each other again, it's almost romantic / Let's hope it is not a fault code.
How do other companies go about {topic}? / Most look at {aspect} first and buy {thing} afterwards.
one of the drivers named a robot {first}, now they all want names / A good sign for acceptance, I'd say.
what's the difference between {topic} and {topic2} anyway / Roughly, the former is about {aspect}, the latter about {aspect2}.
""",
    tools="""
what do the logs of last night say | tail_log ("file": "robots/{module}.log") | 0{few}:{n} robot-{few} state=DRIVE v={decimal} batt={few}{few2}% seq={n} | Nothing in there that I would call unusual.
show me the fleet | fleet_status ("site": "{zone}") | robot-{n} ; idle ; {decimal} V ; tote {n} ; last seen {time} | That's the fleet as it stands right now.
could you run the sim for me? | run_sim ("scenario": "{module}") | tick {n} pos=({decimal}, {decimal2}) wait={few} ok | The simulation went through without collisions.
git log please | git_log ("repo": "{module}") | {hash} {date} tidy up {module} tests (#{n}) | These are the latest changes.
""",
    blocks=(
        "```c\nstatic int wait_slots = {few};\n/* see {topic} */\nif (dist_mm < {n}) brake();*\nreturn wait_slots;\n```",
        "| robot | trips | km | stops |\n| --- | --- | --- | --- |\n| robot-{n} | {n2} | {decimal} | {few} |*",
        "```yaml\nfleet:\n  max_wait: {n}\n  - id: r{n}*\n```",
    ),
    **_COMMON,
)

SCHOOL = Domain(
    name="language school",
    pools=_PEOPLE
    + _EVERYDAY
    + """
course: Polish Starters; Evening Arabic; Business Italian; Conversation Club; Turkish for Nurses; Proficiency Group; Kids' \
French; Sign Language Basics; Korean Crash Course; Dutch Refresher; Writing Workshop; Integration Class; Medical English; \
Brazilian Portuguese; Phonetics Lab; Grammar Clinic
room: Blue Room; Attic Room; Vienna Room; Glass Box; Basement Studio; Annexe; Courtyard Room; Old Chapel; Lisbon Room; \
Seminar Loft; Garden Pavilion; Red Salon
book: Word by Word; Open Doors; Parole Vive; Klartext; Nuevo Rumbo; Grammar in Colour; Mosaic Reader; Brücken; Côté Rue; \
Spoken Daily; Kaleidoscope; First Thousand
exam: citizenship test; placement test; nursing exam; DELF; IELTS mock; dictation contest; Goethe certificate; \
interpreter diploma; Cambridge First; school-leaving exam
platform: Moodle; Zoom; Quizlet; WhatsApp; Padlet; Anki; Teams; Kahoot; Jitsi; Signal
partner: Job Centre; Volkshochschule; Women's Hospital; Rotary Club; Brauer Group; City Library; Chamber of Trade; \
Migration Office; Hotel Astoria; Kinder Trust
device: beamer; photocopier; coffee machine; headset trolley; smart board; laminator; alarm system; boiler; router; piano; \
water cooler; label printer
method: role plays; flashcards; dictations; songs; peer correction; pair work; silent reading; shadowing; board games; \
museum visits; translation drills; storytelling
colour: apricot; pale grey; forest green; lemon; off-white; lavender
shop: Lindemann Books; Papyrus Corner; Buchhaus Ost; Page & Spine; Librería Sol; Hugo's
topic: placement levels; homework; mixed-ability groups; pronunciation; exam nerves; teacher cover; the summer timetable; \
no-shows; learner motivation; classroom noise; funding rules; the newsletter
thing: a waiting list; a trial lesson; a word wall; a seating chart; a glossary; a feedback form; a noticeboard; a buddy \
scheme; a language café; a whiteboard
act: splitting the group; recording the lessons; testing every fortnight; teaching in tandem; lending out books; starting \
with songs; mixing the levels
aspect: attendance; confidence; fluency; accuracy; paperwork; teacher hours; room rent; group spirit; exam results; fun
""",
    facts={
        "constraint": """
u Under-16s in <{course}> have to be [collected by a parent], we don't let any of them walk home alone, not even the tall ones.
u [no phone numbers] of <{course}> people [to anybody], we had a stalker once.
u food is [strictly forbidden] in the <{room}> since the mouse.
u The <{partner}> is paying, so attendance sheets for them are [never changed afterwards], whatever a student tells you.
u when a mail goes out to <{course}> it must [be in both languages], half of them can not understand otherwise.
a May I add a late entry to <{course}> if there is a seat free? / u [only after the written test], same as everyone else.
u please can you [never tell students their marks] in the <{exam}>, that is for the examiner alone, it is the law here
u I must insist that the <{device}> is [unplugged every evening]; the last one caught fire.
u Contracts with the <{partner}> need [two signatures, mine and {person}'s], before they leave the house.
u Also, and I know I sound like my mother, the windows of the <{room}> [stay shut] while a class is on, because the neighbour has threatened to sue.
u nothing from <{book}> [is to be scanned or mailed], the publisher sends lawyers.
u Students, even nice ones, [do not get the code] for the <{device}>. Ever.
""",
        "preference": """
u I'm more of a [{method}] person, as far as <{course}> goes.
u if you write to the <{partner}> [address them formally, with titles], they like that.
u For <{exam}> practice {first} likes it best [with a stopwatch on the wall].
u Keep the timetable of <{course}> [on a single page], nobody ever turns over.
u the <{room}> suits me better [with the chairs in a circle], just saying, for when you make the room plan.
u Between you and me I enjoy [{book}] far more than {book2} with the <{course}> people.
u pls make worksheets for <{course}> [without clip art] it give me headache.
u When you sum up feedback from <{course}>, [start with the complaints], I want the bad news first.
u our students are at ease with [{platform}], much more than with {platform2}, at least those in <{course}>.
u {first} doesn't mind grading for the <{exam}> but does it more gladly [on weekday mornings]
""",
        "decision": """
u So, <{course}> goes up to [{few} lessons a week] from next term, all teachers agreed.
u We'll work with [{book}] in <{course}>.
a Which room shall I put <{course}> in, the {room} or the {room2}? / u the [{room}], it's warmer.
u after what happened we decided that <{course}> will be [taught by two people at a time].
u I spoke to {person} about the tender of the <{partner}> and we're [not bidding this year], too much paperwork for too little.
u the <{device}>? [we get it repaired once more], {person} sees it the same way.
u The <{room}> is to be painted [{colour}]; {first} gets the paint.
a Do you want the <{exam}> on paper or on screen? / u [on paper], the wifi is a lottery.
u as of summer homework for <{course}> [goes through {platform}], we voted and it wasn't even close.
u Good news, I signed: trainees from the <{partner}> will [have a group of their own] instead of joining ours.
u i said yes to {person}, so the <{room}> [is let out on {day}s] to the yoga lady, we need the money
u We [won't be offering] the <{exam}> in winter any more, nobody wants to invigilate on ice.
""",
        "number": """
u there are [{n} names] on the waiting list for <{course}>.
u <{course}> costs [{n} euros] a term.
u The <{room}> holds [{n} people] if you count the window sill.
u pass mark in the <{exam}> is [{n} points].
u The <{partner}> transfers [{big} euros] per quarter.
u {first} did the sums, and the <{device}> alone burns [{n} kWh] a month, which explains the bill we got.
a I added up the sheets: <{course}> had [{n} absences] since {date}.
u We still have [{n} copies] of <{book}> in the cupboard.
u my hourly rate for <{course}>, since you ask, is [{decimal} euros] before tax.
u for <{course}> to pay off we need [{few} learners] at the very least.
u last year [{n} candidates] sat the <{exam}>, I was suprised myself
u Just so you have it: they billed us [{n} crowns] for mending the <{device}>.
""",
        "name": """
u the class rep in <{course}> is [{person}].
u When you ring the <{partner}> ask for [{person}], nobody else there ever picks up.
u the examiner for the <{exam}> will be [{person}], bit of a terror.
u [{person}] has the spare key to the <{room}>, lives across the road.
u The technician who looks after the <{device}> is called [{person}] and wants cash.
a The enquiry about <{course}> was signed [{person}], without a phone number.
u I promised a reference to [{person}], who was in <{course}> for two years and did not miss a single lesson.
u oh and the author of <{book}> is an old friend of my husband's, [{person}], so be nice about it in the newsletter.
u bookkeeping for the <{partner}> money does [{person}].
u We owe the lovely posters for the <{exam}> to [{person}].
""",
        "date": """
u last leson of <{course}> is [{date}], bring cake
u Registration for the <{exam}> closes [{date}].
u the <{partner}> wants our report by [{date}], sharp.
u {person} retires on [{date}], after which there's nobody here who can cover <{course}>.
u They are going to replace the floor in the <{room}> on [{date}].
u lease for the <{device}> runs till [{date}].
a The new edition of <{book}> comes out on [{date}], says the publisher's page.
u I can't do <{course}> on [{date}], my daughter is graduating.
u We get a stall at the open day of the <{partner}>, that's [{date}].
u parents evening for <{course}> would be [{date}] and i'm dreading it already.
u The <{exam}> certificates arrive on [{date}], I asked twice.
""",
        "change": """
u The outing with <{course}> is on [{date}]. >> u With this forecast we're moving things about, <{course}> has its outing [{date2}].
u lessons in <{course}> begin at [{time}]. >> u Because of the stupid bus <{course}> meets at [{time2}] from now on.
u The fee for the <{exam}> is [{n} euros]. >> u ministry changed the price again, <{exam}> is [{n2} euros]
u [{person}] teaches <{course}>. >> u with the flu going round and round, [{person2}] has <{course}> for the rest of the term.
u Door code of the <{room}>: [{n}{few}]. >> u someone wrote it on the wall!! so now it's [{n2}{few2}] for the <{room}>.
u We have [{n} people] signed up for <{course}>. >> u After the flyer <{course}> stands at [{n2} people].
u the <{partner}> sends us [{n} trainees] in autumn. >> u heard back from the <{partner}>, it'll be [{n2} trainees] after all.
u Students with questions about the <{exam}> write to [{person}]. >> u Please point everyone asking about the <{exam}> to [{person2}], there has been a falling-out.
u we order <{book}> from [{shop}]. >> u That shop's gone bankrupt, I'm told. [{shop2}] gets us <{book}> instead.
u you'll find the <{device}> in the [{room}] >> u somebody carried the <{device}> over to the [{room2}], lives there now.
u {first}'s parking permit aside, the <{partner}> lends us [{few} laptops]. >> u they counted again, so from the <{partner}> it's [{few2} laptops].
""",
        "identifier": """
t certificate issued, <{exam}>: no. [{code}]
t invoice to <{partner}> sent: [INV-{n}{few}]
t <{course}> registered in the portal as [crs_{hash}]
t scan stored as [scans/{hash}.pdf], <{book}> p. {n}
t printing list of <{course}> failed: [E-{n}{hash}]
u ISBN of <{book}> is [978-{n}-{n2}-{few}].
u the <{partner}> wants their reference on every single page, namely [{code}].
t meeting created for <{course}>: id [{n}-{n2}-{few}]
a The <{device}> has the inventory number [{code}.{few}].
u {first} dug out the bank reference of our deposit for the <{room}>, it's [{code}-{n}], keep it somewhere.
t backup of <{course}> grades written: [grades-{hash}.xlsx]
""",
    },
    chat=_CHAT
    + """
one of my beginners said 'I am a kitchen' today and I nearly lost it / Everyone has been a kitchen at some point.
What would you do about {topic} if it were your school? / I'd begin with {thing} and watch {aspect} for a while.
does {act} work with teenagers / It can, if {aspect} matters to them at all.
the photocopier sounds like {creature} / With luck it only wants paper.
""",
    tools="""
can you pull up the class list? | list_students ("group": "{course}") | {person} ; joined {date} ; {n} min ; level {few} | That's the list as it is stored.
check our inbox pls | read_inbox ("folder": "school") | {date} {time} {person}: question on {topic} ({few} attachments) | Mostly routine questions, as far as I can tell.
open the bookings | room_bookings ("room": "{room}") | {day} {time} {person} {few} h ref {n} | No clashes that I can see.
""",
    blocks=(
        "| week | theme | pages | minutes |\n| --- | --- | --- | --- |\n| {few} | {topic} | {n} | {n2} |*",
        "A possible lesson:\n\n- {n} seconds of silence\n- {method}, {few} minutes*\n- questions",
        "Dear all,\n\na word on {topic}: we'd like to hear what you think of {thing}.*\n\nKind regards",
    ),
    **_COMMON,
)

JOURNEY = Domain(
    name="family journey",
    pools=_PEOPLE
    + _EVERYDAY
    + """
stop: Karlshavn; Lake Orla; Vestermark; Tallmere; Sankt Olof; Port Brida; Upper Sarn; Grimsvik; Kaldahl; Montelba; Ria Sola; \
Dunmorrow; Ostrava Bay; Peniscal; Val Turrid; Hjelmsund
transport: night ferry; sleeper train; express coach; cable car; harbour shuttle; island bus; hotel minibus; airport bus; canal \
boat; mountain railway; hydrofoil; tram-train
lodging: Hotel Lumen; Villa Serrat; Old Lighthouse; Camping Pinheiro; Pension Edda; Casa Miró; Farm Brekke; Hostel Nine; \
Guesthouse Amber; Chalet Rosa; Mill House; Gasthof Adler
gear: roof box; folding stroller; snorkel set; camping stove; travel cot; pop-up shade; tool box; big suitcase; family \
tent; rubber dinghy; booster seat; cool box; bike trailer; baby carrier
event: reindeer farm; glass museum; geyser walk; cooking class; kayak tour; puppet show; thermal bath; whale watching; salt \
mine; climbing park; planetarium; folk festival
doc: passport; travel insurance; driving licence; vaccination card; visa; railcard; campsite card; pet certificate
food: plain pasta; fish and chips; pancakes with jam; grilled sausages; fried rice; cheese toasties; dumplings
span: two; three; four
gate: 3B; 7A; 12C; 15F; 9D; 21E
topic: packing light; motion sickness; border queues; sunscreen; travel budgets; phone roaming; keeping children busy; jet \
lag; luggage limits; eating out; mosquito nets; toll roads
thing: a paper map; a spare charger; a laundry bag; a picnic blanket; a phrase book; a money belt; a hammock; a thermos; a \
neck pillow
act: driving at night; sharing a suitcase; booking late; cooking for ourselves; travelling by rail; swapping homes; renting \
bikes; sleeping in the car
aspect: comfort; price; weather; walking distance; the children's mood; sleep; scenery; flexibility; crowds; noise
""",
    facts={
        "constraint": """
u {first} gets carsick, so on the leg to <{stop}> we [don't drive longer than {span} hours] in one go.
u nothing at <{lodging}> gets paid [before i've read the cancellation terms], i mean it
u My mother is coming along to <{stop}> and she can't do stairs, therefore [ground floor only].
u [No photos of the kids] from <{stop}> online. Not in a story, not in a group, nowhere.
u keep in mind the dog is with us on the <{transport}> and [can't be left alone, not for a minute], he panics.
u for the <{event}> you can look up whatever you want but [leave the booking to me].
u One of us has a nut allergy, meaning that at <{lodging}> [the kitchen has to be told], every single time we eat there.
a Should I send a scan of your <{doc}> to the hotel if they ask? / u [no, never by mail]. I show it at the desk.
u [stay under {n} euros a night] in <{stop}>, absolute limit, we are not millionaires.
u Arriving in <{stop}> [after dark is out of the question], I did that once with a crying baby and a torch.
u the <{gear}> cost a fortune, it [must not get wet] under any circumstances.
u Since my surgery I'm [not supposed to carry anything heavy], think of that when we change to the <{transport}>.
""",
        "preference": """
u We're [window-seat people], on the <{transport}> especially.
u if there's time in <{stop}> I'd much rather [sit in a café than see a church].
u For <{lodging}> [a room to the courtyard] would be my choice, street noise kills me.
u {first} likes the days in <{stop}> [unplanned until noon], teenagers...
u Send me plans for <{stop}> [as a table with times], no long texts.
u to be honest our kids love [{food}] more than anything fancy, so that's what I'd have in <{stop}>
u I'd like to have the <{gear}> [on top], makes customs quicker.
u My husband would go for [the {event}] any day over the {event2}, if <{stop}> has both.
u In <{stop}> [paper maps, not apps], if you ask me, half the fun is getting lost.
u we'd sooner take the <{transport}> [at dawn than sit in traffic].
u breakfast at <{lodging}> [as late as possible] would be heaven.
""",
        "decision": """
u OK! <{stop}> it is, [for {few} nights].
u Family council has spoken: in <{stop}> we [get around by bike].
a For the way to <{stop}>, the {transport} or the {transport2}? / u [{transport2}] please, settled.
u the <{gear}> we [insure separately], costs next to nothing.
a <{lodging}> offers half board or just breakfast. Which one? / u [just breakfast], we're out all day
u While we're in <{stop}> the cat [stays with {person}], a kind offer and I said yes on the spot.
u it's settled then, at the <{event}> we [split up], you take the big ones and i go with the baby.
u Having read your list I've gone for the [{event}] on our free day in <{stop}>.
u my wife and i agreed last nigth that we [take the two-room suite] at <{lodging}>, snoring being what it is.
u for <{stop}> we'll [pay everything in cash], the bank wants silly fees.
a Do you want the extra insurance with the <{transport}>? / u [without], our card covers that.
u After the third bad review in a row I've [paid for the upgrade] on the <{transport}>.
""",
        "number": """
u <{lodging}> asks [{n} euros] a night.
u it's [{n} km] from <{stop}> to the border
u The <{gear}> weighs [{few}.{n} kg], I put it on the bathroom scales.
u five tickets for the <{event}> make [{n} crowns], ouch.
u They allow [{few} bags] each on the <{transport}>.
u {first} has saved [{n} coins] of pocket money for <{stop}> and counts them daily, it's adorable.
a The <{transport}> takes [{n} minutes], according to the operator.
u deposit for <{lodging}> was [{big} crowns].
u there are [{n} steps] up to the <{event}>, my knees hurt just reading it.
u <{stop}> lies [{n} feet] above sea level, so take a jumper.
u I looked at last year's statement because I couldn't believe it, and yes, the <{doc}> came to [{n} pounds] with all the extras.
t weather <{stop}>: water [{decimal} degrees], wind light
""",
        "name": """
u host at <{lodging}> = [{person}]
u After the <{transport}> we get picked up by someone called [{person}], at the exit, with a sign.
u in <{stop}> lives an old school friend of mine, [{person}], who'd put us up if everything else fails.
u [{person}] gave us the <{gear}>, we owe them a bottle of wine.
u Our guide at the <{event}> will be [{person}], speaks some Dutch too.
u got the <{doc}> stuff sorted, the clerk in charge was [{person}] in case we need him again.
a The confirmation from <{lodging}> was signed by [{person}].
u The doctor in <{stop}> everybody recommends is [{person}].
u a cousin of my wife's runs the <{event}>! name is [{person}], says kids get in free.
u if they lose our bags on the <{transport}> you complain to [{person}], i've been through it.
""",
        "date": """
u we check out of <{lodging}> on [{date}] i belive
u My <{doc}> expires [{date}], just so you know.
u The <{event}> is shut until [{date}].
u <{stop}> has its big market day on [{date}] and I want to see the cheese rolling.
u tickets for the <{transport}> go on sale [{date}].
u I need the <{gear}> back by [{date}], wrote {first} about it.
a You can cancel <{lodging}> free of charge up to [{date}].
u my parents fly home from <{stop}> on [{date}].
u there's some strike on, nothing to do with us really, which means the <{transport}> stands still on [{date}].
u The appointment for the <{doc}> is on [{date}], bring photos.
u by [{date}] we must have told them whether the <{doc}> is for five or for six
""",
        "change": """
u we get to <{stop}> on [{date}]. >> u Had the weeks mixed up. Arrival in <{stop}> is [{date2}].
u The <{transport}> leaves at [{time}]. >> u new timetable is out, <{transport}> departs [{time2}].
u In <{stop}> we're sleeping at [{lodging}]. >> u they let us down, so it's [{lodging2}] in <{stop}>.
u I booked <{lodging}> for [{few} people]. >> u Some news on the in-law front, I had <{lodging}> put us down as [{few2} people].
u rent for the <{gear}> is [{n} crowns] a week. >> u the shop got back to me, <{gear}> is [{n2} crowns] in high season.
u The guided tour of the <{event}> begins at [{time}]. >> u they wrote: the <{event}> tour begins [{time2}], not that anyone asked us
u Budget for <{stop}>: [{n} euros] all in. >> u looked at the bank account again, let's say [{n2} euros] for <{stop}>.
u [{first}] is in charge of the <{gear}>. >> u kids swapped jobs, [{first2}] looks after the <{gear}>.
u The <{transport}> goes from gate [{gate}]. >> u Board's just flipped: <{transport}> from gate [{gate2}].
u we see {person} in <{stop}> at [{time}]. >> u the <{stop}> get-together got moved to [{time2}], some dentist thing.
u I've put [{person}] down as emergency contact for <{lodging}>. >> u No one ever picks up there, so as emergency contact for <{lodging}> we take [{person2}].
""",
        "identifier": """
t booking confirmed, <{lodging}>: [{code}]
t e-ticket <{transport}> [ETK{n}{hash}]
t upload ok: [docs/{hash}.pdf], <{doc}>
t payment refused by <{lodging}>: [ERR_{n}{few}]
u number on my <{doc}>: [{code}{few}].
u {first} just sent me the locker where the <{gear}> is, it's [{code}]
a I saved the route to <{stop}> as [routes/{hash}.gpx].
t parcel with <{gear}> handed over, tracking [TR{hash}{few}]
t voucher created for <{event}>: [VC-{hash}]
u wifi password at <{lodging}>, off the fridge door: [guest{n}sun].
t claim about <{transport}> received under [{code}-{few}]
""",
    },
    chat=_CHAT
    + """
the kids packed {snack} and {creature} made of plush, no socks / Priorities are clear, then.
Tell me something nice about the seaside. / The light late in the day, and that nobody hurries.
is {act} a bad idea with small children / It depends on {aspect}. Many families are fine with it.
We're not there yet, are we. / Not quite, but the best part is still ahead.
""",
    tools="""
look for somewhere to eat | search_places ("near": "{stop}") | {snack} place no. {n} ; {decimal} km ; rating {few} ; open till {time} | A few of them look nice, all within reach.
what's the weather going to be? | forecast ("place": "{stop}") | {date} {time} cloud {n} gusts {few} rain {decimal} mm | Changeable, I would pack layers.
go through my mails | read_mail ("label": "trip") | {date} {person}: {topic}, {few} replies, size {n} kB | Nothing pressing among those.
""",
    blocks=(
        "| day | hours | km | petrol |\n| --- | --- | --- | --- |\n| {few} | {decimal} | {n} | {decimal2} |*",
        "For the bag:\n\n- {few} pairs of socks\n- {thing}*\n- something against {topic}",
    ),
    **_COMMON,
)

DOMAINS = (ROBOTS, SCHOOL, JOURNEY)
