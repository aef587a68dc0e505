"""Vocabularies that the engine is never tuned on, in the words of other people: warehouse robots, a family's journey."""

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
Some swear one can forget about {topic} after {few} weeks, others never see the end of it.
Seen from a distance, {topic} and {topic2} are the same question asked by two different people.
For what it's worth, I found about {n} accounts of {act} going well and rather fewer of it going badly.
The usual advice is to get {thing} first; I am less convinced, because {aspect} rarely improves through it.
Nearly everything written on {topic} was written by somebody who sells {thing}.
Between {act} and {act2} the difference is smaller than it sounds.
I'd keep {aspect} and {aspect2} apart in your head, they pull in opposite directions.
With {topic} much is down to expectations, and those can be talked about beforehand.
Give it {few} days, then compare how {aspect} has developed, and adjust.
If I may add something on {topic}: the first impression is seldom the right one.
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
{first}'s {kin} has started with {pastime}, at eighty! / Good for them, it is never too late.
There's {creature} sitting on our bins again, looking at me as if I owed it {n} euros. / Perhaps it keeps the accounts.
My {kin} phoned, an hour about {pastime}, I just said mhm / A patient listener is worth a lot.
what a week. {sky}, {few} meetings a day and somebody microwaved {snack} in the office / That's a lot to bear at once.
I once met {person} in a lift and said nothing for {few} floors / It happens to the best of us.
heh, good point / Thanks! Where to next?
Just wondering, no need to act on it: is {act} something people still do? / Some do, chiefly for the sake of {aspect}.
never mind that was the {kin} with {snack} / A welcome interruption, surely.
And what does one do about {topic}, in general? / Generally one starts from {aspect}, looks at {thing} and leaves the rest for later.
I'm so done with {sky}. / Hopefully it clears up by {day}.
Hello there. New week, new luck. / Hello! Ready when you are.
no idea what i wanted to say now / It will come back to you, I'm sure.
"""
_BEFORE = """
Hi again.
Got {snack} in front of me, so forgive the crumbs.
Just back from {pastime}, {temper} but alive.
My {kin} kept me on the phone, sorry.
Quick one between two meetings.
Hello from under {sky}, hope you're well.
Funny that you bring up {topic}.
"""
_AFTER = """
Anyway, gotta run.
There was something else but it has slipped my mind.
can we go on with {topic} afterwards?
How does {thing} fit into all this?
Is {aspect} still a worry, in your opinion?
"""
_CONFIRMS = """
Alright, thanks for telling me.
Okay, I've taken that in. Do you want to carry on with {topic}?
Makes sense to me.
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
u since the accident with the forklift the works council insists that [somebody stands at the e-stop] whenever we try anything out in the <{zone}>.
u It's in the contract with <{client}> that [badge numbers of their staff never show up] in any log or screenshot, and they do check.
a Should I mail {client} myself about the fault in <{module}>? / u [nope, everything to customers goes through {person}].
u the <{zone}> has to be [left alone during {shift}], there are people on foot everywhere then.
u And kindly [check with {person}] each time before you take a robot out of the <{zone}>, even if it's for five minutes.
""",
        "preference": """
u Honestly I find [{approach}] nicer to debug, so if there's a choice to be made in <{module}>, that.
u Me, I would always take [{library}] over {library2} for something like <{module}>.
u in <{module}> [snake_case for everything], that's how my brain works.
u If it's all the same to you, name the variables in <{module}> [after the part numbers].
u When something breaks in <{module}> I'd sooner [see the raw log than a summary].
u i like it when estimates for <{module}> come [in half days], hours are a lie anyway.
""",
        "decision": """
u ok so <{module}> is going to use [{approach}]. done deal
a For <{module}>, do you want to stay on {library} or switch to {library2}? / u [{library2}], and let's not reopen that.
u {first} won the coin toss, ha, so the housing of the <{board}> will be [{made}].
u The board signed off on [buying {few} more chargers] for the <{zone}>, so that's that.
u I told {person} this morning that the trial in the <{zone}> [ends without a phase two], they took it well.
a There are quotes from {vendor} and from {vendor2} for servicing the <{board}>. / u Sign with [{vendor2}].
""",
        "number": """
u the floor of the <{zone}> takes [{n} kg per square metre], says the structural engineer
u <{client}> is paying [{big} euros] a month for the pilot and grumbels about every cent of it.
a Going by the trace, <{module}> drops [{decimal} percent] of its frames under load.
u <{module}> eats up to [{n} MB] of memory on the robot.
u in the contract <{client}> agreed to [{decimal} hours] of downtime a year.
t battery report <{zone}>: mean [{n} cycles], worst cell ok
""",
        "name": """
u The person who knows <{module}> inside out is [{person}], mornings only though.
u For the <{zone}> you need a key, which is in [{person}]'s drawer.
u whoever asks about the layout of the <{board}>: a freelancer did that for us, [{person}], hard to reach.
u Our sales contact for the <{board}>: [{person}].
u Do you know [{person}]? Going to be our inspector at <{client}>, very strict I am told.
""",
        "date": """
u <{client}> comes to see a demo on [{date}].
u Please bear in mind that the maker stops selling the <{board}> on [{date}].
u I'm having my knee done on [{date}], nothing dramatic, but questions about <{module}> should reach me before that
a The portal lists [{date}] as the delivery day for the <{board}>.
u I think I've said it before, <{module}> needs its certificate by [{date}] or the whole rollout slips to next year.
""",
        "change": """
u <{module}> polls every [{n} ms] at the moment. >> u fiddled with the polling of <{module}> a bit, it's every [{n2} ms] since this morning.
u we get the <{board}> from [{vendor}]. >> u let down once too often. the <{board}> comes from [{vendor2}] from here on.
u [{person}] is product owner for <{module}>. >> u Small reshuffle, effective today: product owner for <{module}> is [{person2}].
u Stand-up about the <{zone}> is at [{time}]. >> u {first} has to drop the kids off first, could everyone come to the <{zone}> stand-up at [{time2}] from tomorrow.
u <{client}> ordered [{n} licences]. >> u <{client}> came back to us, it's [{n2} licences] they need.
u screws on the <{board}> are tightened to [{n} Ncm], don't ask me why >> u After the third stripped thread the screws on the <{board}> get [{n2} Ncm].
""",
        "identifier": """
t flashed <{board}> ok, build [fw-{hash}], {n} kB
t RMA opened for <{board}>: [{code}]
t map of <{zone}> exported to [maps/{hash}.pgm]
u order number from <{client}> is [{code}], you'll need it for the invoice.
t bench run of <{board}> stored as [bench-{hash}]
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
u My mother is coming along to <{stop}> and she can't do stairs, therefore [ground floor only].
u keep in mind the dog is with us on the <{transport}> and [can't be left alone, not for a minute], he panics.
u One of us has a nut allergy, meaning that at <{lodging}> [the kitchen has to be told], every single time we eat there.
u [stay under {n} euros a night] in <{stop}>, absolute limit, we are not millionaires.
u the <{gear}> cost a fortune, it [must not get wet] under any circumstances.
""",
        "preference": """
u We're [window-seat people], on the <{transport}> especially.
u For <{lodging}> [a room to the courtyard] would be my choice, street noise kills me.
u Send me plans for <{stop}> [as a table with times], no long texts.
u I'd like to have the <{gear}> [on top], makes customs quicker.
u In <{stop}> [paper maps, not apps], if you ask me, half the fun is getting lost.
u breakfast at <{lodging}> [as late as possible] would be heaven.
""",
        "decision": """
u OK! <{stop}> it is, [for {few} nights].
a For the way to <{stop}>, the {transport} or the {transport2}? / u [{transport2}] please, settled.
a <{lodging}> offers half board or just breakfast. Which one? / u [just breakfast], we're out all day
u it's settled then, at the <{event}> we [split up], you take the big ones and i go with the baby.
u my wife and i agreed last nigth that we [take the two-room suite] at <{lodging}>, snoring being what it is.
a Do you want the extra insurance with the <{transport}>? / u [without], our card covers that.
""",
        "number": """
u <{lodging}> asks [{n} euros] a night.
u The <{gear}> weighs [{few}.{n} kg], I put it on the bathroom scales.
u They allow [{few} bags] each on the <{transport}>.
a The <{transport}> takes [{n} minutes], according to the operator.
u there are [{n} steps] up to the <{event}>, my knees hurt just reading it.
u I looked at last year's statement because I couldn't believe it, and yes, the <{doc}> came to [{n} pounds] with all the extras.
""",
        "name": """
u host at <{lodging}> = [{person}]
u in <{stop}> lives an old school friend of mine, [{person}], who'd put us up if everything else fails.
u Our guide at the <{event}> will be [{person}], speaks some Dutch too.
a The confirmation from <{lodging}> was signed by [{person}].
u a cousin of my wife's runs the <{event}>! name is [{person}], says kids get in free.
""",
        "date": """
u we check out of <{lodging}> on [{date}] i belive
u The <{event}> is shut until [{date}].
u tickets for the <{transport}> go on sale [{date}].
a You can cancel <{lodging}> free of charge up to [{date}].
u there's some strike on, nothing to do with us really, which means the <{transport}> stands still on [{date}].
u by [{date}] we must have told them whether the <{doc}> is for five or for six
""",
        "change": """
u we get to <{stop}> on [{date}]. >> u Had the weeks mixed up. Arrival in <{stop}> is [{date2}].
u In <{stop}> we're sleeping at [{lodging}]. >> u they let us down, so it's [{lodging2}] in <{stop}>.
u rent for the <{gear}> is [{n} crowns] a week. >> u the shop got back to me, <{gear}> is [{n2} crowns] in high season.
u Budget for <{stop}>: [{n} euros] all in. >> u looked at the bank account again, let's say [{n2} euros] for <{stop}>.
u The <{transport}> goes from gate [{gate}]. >> u Board's just flipped: <{transport}> from gate [{gate2}].
u I've put [{person}] down as emergency contact for <{lodging}>. >> u No one ever picks up there, so as emergency contact for <{lodging}> we take [{person2}].
""",
        "identifier": """
t booking confirmed, <{lodging}>: [{code}]
t upload ok: [docs/{hash}.pdf], <{doc}>
u number on my <{doc}>: [{code}{few}].
a I saved the route to <{stop}> as [routes/{hash}.gpx].
t voucher created for <{event}>: [VC-{hash}]
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

DOMAINS = (ROBOTS, JOURNEY)
