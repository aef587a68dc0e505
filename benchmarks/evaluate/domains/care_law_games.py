"""Care for a mother at home, a law office, a game studio."""

from __future__ import annotations

from benchmarks.evaluate.conversations import Domain

_PEOPLE = """
person: {first} {last}
first: Agnes; Bruno; Carmen; Dimitri; Elspeth; Farid; Greta; Hamish; Ingrid; Jamal; Katya; Lorenzo; Maud; Nikolai; \
Orla; Priya; Rafael; Saskia; Tomasz; Ulrika; Vikram; Winifred; Xenia; Zoltan
last: Abernathy; Bianchi; Czerny; Duquesne; Engstrom; Farrokh; Gundersen; Hoxha; Ilves; Jurado; Kapoor; Lachance; \
Mbeki; Norrgard; Okonkwo; Petrakis; Radic; Szabo; Takahashi; Urquhart; Villanueva; Weatherby; Ypsilanti; Zielinski
"""
_PROSE = """
People tend to ask about {thing} early, although {topic} is where most of the effort ends up.
From experience, {act} pays off mainly when {aspect} is under pressure.
It helps to separate {topic} from {topic2}, at least in your head, because they run on different clocks.
The honest answer is that nobody can predict {aspect} very far ahead.
Somewhere between {aspect} and {aspect2} there is usually a compromise that everyone can live with.
If I had to name one surprise, it would be how much {aspect} depends on {topic}.
A survey of {n} cases found that {act} made things easier in about half of them.
You may find that {thing} looks like overkill at first and becomes indispensable after {few} weeks.
Then again, plenty of people manage {topic} perfectly well with pen and paper.
In the background, {topic} keeps generating small questions that are easy to postpone.
Whether {act} is a good idea hinges on {aspect}, which varies from one situation to the next.
On a bad day {thing} feels like one more chore; on a good day it saves the afternoon.
There is no shame in {act} for a month or two and then giving it up again.
Usually {aspect} improves by itself as soon as {topic} becomes routine.
The tricky bit is timing, since {act} can swallow a whole {day} if {aspect} is poor.
"""
#: What small talk is about; nobody needs it later.
_EVERYDAY = """
snack: a stale pretzel; leftover paella; kimchi toast; half a melon; a cheese scone; cold pizza; pea soup; rice pudding
pastime: geocaching; the ukulele; jigsaw puzzles; tai chi; home brewing; fencing; juggling; karaoke; backgammon; archery
critter: a squirrel; a heron; a jackdaw; someone's ferret; a bat; the postman's beagle; a snail; a stray goat
kin: stepsister; nephew; great-uncle; mother-in-law; sister; grandad; goddaughter; second cousin; husband; brother
blunder: left the oven on; put salt in my coffee; forgot my own birthday; walked into a glass door; broke a shoelace; \
dyed the washing pink; got off at the wrong stop; waved at a stranger; mixed up left and right; cracked the last egg
sky: snow; a thunderstorm; low clouds; bitter cold; hazy sunshine; pouring rain; a sandy wind; humidity; black ice
show: the darts final; a baking programme; a detective series; some space opera; the marathon; a soap; an old comedy
spirits: sleepy; giddy; cranky; optimistic; jittery; wistful; chatty; worn out; content; scatterbrained
"""
_CHAT = """
{first} is learning {pastime} and the whole street suffers / Practice makes perfect, eventually.
My {kin} sends a photo of {snack} every single {day}, no idea why. / A mystery worth preserving.
We have {sky} since {time}, I'm getting {spirits}. / Stay warm, or cool, whichever applies.
{person} once told me that {pastime} is better than therapy. Cost him {n} euros so far. / Therapy is not cheap either.
false alarm on the balcony, it was {critter} / Ha! Carry on whenever you like.
hello hello, anyone awake? / Always. How may I help?
Does everyone only pretend to understand {topic}? / Probably. It boils down to {aspect}, most of the time.
I was thinking of {act}, but forget it, a silly idea. / No idea is silly before coffee.
Do you ever get {spirits}? / Not really, but I can imagine it.
{show} went on until {time} last night and {first} cried. / It must have been moving.
I had {snack} for dinner, standing up. / Everyone has such evenings.
My {kin} turned {n} the other day, at least that's what it feels like. / A respectable age!
Sometimes I wonder if {thing} is worth the trouble. What is your take? / Often yes, as long as {aspect} counts for you.
I should really take up {pastime}. Next year maybe. / Next year is a fine time.
What would {aspect} even mean to {critter}? / A deep question for a {day}.
Somebody ate my lunch, it was {snack}, and I suspect {first}. / Collect evidence quietly.
Give me {few} minutes, I need to find my glasses. / They are often on the head.
How does {topic} work where you come from? / Mostly in theory. People speak about {thing} a lot.
Let's not rush {topic}, I only wanted to hear myself think. / Thinking aloud is welcome here.
"""
_BEFORE = """
Sorry, I {blunder} and needed a moment.
Still {spirits} after {show}.
Hi again, it's me.
One more thing that crossed my mind.
So, about this morning.
Just got off the phone with my {kin}, long story.
Outside there's {sky}, perfect for paperwork.
Where did we stop?
I keep coming back to {topic}, it is a big pile.
{first} is making {snack} for everyone, so I have a minute.
Let me add something while I remember it.
"""
_AFTER = """
Right, {critter} is at the window again.
What would you say about {aspect} in general?
I'll be back around {time}.
Sorry for the typos, I am on my phone.
Feel free to tell me more about {topic}.
So much for that.
Does {thing} matter here at all?
"""
_CONFIRMS = """
Thanks for telling me.
Clear. Do you want to continue with {topic}?
Okay, I have it.
That makes sense, and it fits what we said about {aspect}.
Will do. Let me know when {topic} comes up again.
"""
_COMMON = {"prose": _PROSE, "chat": _CHAT, "before": _BEFORE, "after": _AFTER, "confirms": _CONFIRMS}

CARE = Domain(
    name="home care",
    pools=_PEOPLE
    + _EVERYDAY
    + """
med: ramipril; metformin; bisoprolol; torasemide; levothyroxine; apixaban; donepezil; pantoprazole; amlodipine; \
mirtazapine; simvastatin; gabapentin; prednisolone; digoxin; allopurinol; citalopram
aid: hoist; rollator; hospital bed; commode; wheelchair; stair lift; shower stool; bath lift; walking frame; recliner; \
transfer board; standing aid; bath chair; toilet seat
help: night sitter; meal service; district nurse; physiotherapist; chiropodist; mobile hairdresser; driving service; \
speech therapist; cleaning lady; wound nurse; visiting companion
clinic: memory clinic; eye clinic; day centre; heart centre; dental surgery; rehab gym; pain clinic; \
diabetes unit; sleep lab; lung practice; kidney ward; hearing centre
firm: Linden Care; Swanfield; Helping Hands; Medirent; Abbey Homecare; Silverline; Northgate Medical; Hearth and Home; \
Clover Nursing; Bluebird Supplies
food: grapefruit; liquorice; alcohol; aged cheese; spinach; black tea; ginger tea; St John's wort
soft: apple sauce; yoghurt; custard; honey; plum puree; semolina; mashed banana; jelly
when: right after breakfast; before lunch; in the early afternoon; after her nap; at teatime; before the evening news
often: twice a day; every morning; at bedtime; every other day; with each meal
place: bedroom; hallway; sewing room; conservatory; spare room; living room; bathroom; veranda
scent: lavender; bleach; camphor; cigarettes; vinegar; roses; rubber; fried onions
dose: 2.5; 5; 7.5; 10; 12.5; 15; 20; 25; 40; 50; 75; 100; 125; 150
pulse: 48; 50; 52; 54; 55; 57; 58; 60
kilo: 110; 120; 130; 135; 150; 160; 175; 180; 200; 220
topic: dementia; fall prevention; carer's allowance; respite care; hydration; pain relief; sleep hygiene; care planning
thing: a medication plan; a night light; a care diary; a second pair of hands; a waiting list; a baby monitor; a ramp
act: sharing the nights; labelling the cupboards; singing together; keeping a diary; asking neighbours; cooking ahead
aspect: dignity; routine; patience; sleep; mobility; appetite; money; safety; balance; trust
""",
    facts={
        "constraint": """
u [If her pulse is below {pulse}] the <{med}> [has to be skipped], the cardiologist was quite firm about it.
u [{food}] together with <{med}> [is dangerous], so please keep it out of her meal plan.
u Tablets of <{med}> [must be swallowed whole]. Crushed ones put her in hospital last year.
u using the <{aid}> is [strictly a job for two carers], one alone could drop her.
u Please [run it past {person}] every time the <{help}> suggests a change.
u [Not a word about her diagnosis] to the <{help}>, she is ashamed of it.
u It takes [at least {few} hours between] <{med}> and [{med2}], otherwise her blood pressure collapses.
a Shall I request a repeat of <{med}> by myself when the box is nearly empty? / u [Better not, that is {person}'s job].
""",
        "preference": """
u Mum is happiest when the <{help}> comes [{when}].
u she takes her <{med}> without any fuss [stirred into {soft}], that's how she likes it best.
u Could you explain <{med}> [in plain words, without Latin]? That would suit me better.
u For the <{help}> a [checklist on a single page] works best for me.
u My mother can't bear [the smell of {scent}] anywhere near her <{aid}>.
""",
        "decision": """
u Family vote last night: the <{help}> [gets a trial of {few} weeks].
u So it's settled, she has her <{med}> [{often}].
u This morning the doctor [took her off] <{med}> [permanently].
u {person} and I have made up our minds about the <{aid}>, it [goes back to the shop].
u The <{aid}> will [stand in the {place}], I cleared a corner already.
a For the <{help}> I found {firm} and {firm2}. Who shall it be? / u [{firm2}], they sounded kinder.
a Does she stay with the <{clinic}> or would you rather look for another one? / u [She stays], they know her there.
""",
        "number": """
u One pack of <{med}> lasts her [{few} weeks].
u The insurance chips in [{n} euros] a month for the <{help}>.
u the <{aid}> holds up to [{kilo} kilos] so she's well within.
a Going by the leaflet, the limit for <{med}> is [{dose} mg] within a day.
u There are [{n} tablets] of <{med}> left in the cupboard, I counted.
""",
        "name": """
u Ask for [{person}] when you ring the <{clinic}>, nobody else picks up.
u our regular <{help}> on {day}s is [{person}], a gem.
u It was [{person}] who prescribed the <{med}> in the first place.
a I read the letter, and your caseworker for the <{aid}> would be [{person}].
""",
        "date": """
u The <{clinic}> wants her referral letter by [{date}].
u Her prescription for <{med}> is valid until [{date}].
u We have to return the <{aid}> no later than [{date}].
u {first} flies in on [{date}] to meet the <{help}>.
u mark [{date}] in the calendar please, that's the blood test because of the <{med}>.
""",
        "change": """
u She takes [{dose} mg] of <{med}>. >> u The doctor adjusted her <{med}>, it's [{dose2} mg] from today.
u The <{clinic}> sees her on [{date}]. >> u rang the <{clinic}>, they can only do [{date2}] now.
u [{person}] drives her to the <{clinic}>. >> u Change of plan, [{person2}] takes over the trips to the <{clinic}>.
u The <{help}> charges [{n} euros] a week. >> u There's a new price list, the <{help}> wants [{n2} euros] a week.
u I usually give <{med}> at [{time}]. >> u We shifted <{med}> to [{time2}], she sleeps better that way.
u The <{aid}> comes from [{firm}]. >> u {firm} let us down, so we're getting the <{aid}> from [{firm2}].
""",
        "identifier": """
t repeat prescription sent: <{med}>, order [RX{n}-{hash}]
t insurer replied about <{aid}>: claim number [{code}]
t appointment booked, <{clinic}>, reference [{n}/{hash}]
t letter from <{clinic}> stored as [scans/{hash}.pdf]
t <{med}> dispensed from batch [LOT{n}{few}]
t application for <{help}> refused: [form {n} incomplete]
""",
    },
    tools="""
anything new from the pharmacy? | pharmacy_orders ("patient": "mother") | {date} ; {med} {dose} mg ; {few} packs ; \
picked up by {first} | This is the list as the pharmacy keeps it.
show me the care diary | read_diary ("days": {few}) | {day} {time} slept {few} h, drank {n} ml, {spirits} | As usual.
Could you go through her letters? | list_letters ("box": "{clinic}") | {date} letter {n} from {firm}, {few} pages, \
{topic} | I went through all of them, mostly routine.
""",
    blocks=(
        "| time | medicine | dose |\n| --- | --- | --- |\n| {time} | {med} | {dose} mg |*",
        "A quiet evening could look like this:\n\n1. Tea at {time}.\n2. Some music.\n- {few} minutes for {topic}*",
    ),
    **_COMMON,
)

LAW = Domain(
    name="law office",
    pools=_PEOPLE
    + _EVERYDAY
    + """
matter: Hartwell; Calloway; Pemberton; Ravensworth; Delacourt; Osterberg; Fairbank; Montrose; Kestrel Shipping; \
Blackwater Mills; Thornbury; Winslow; Ellsworth Dairy; Marchbanks; Quillfeather; Strandvik
doc: lease; expert report; witness statement; site diary; settlement draft; notice of defects; fee agreement; \
appraisal; statement of claim; loan agreement; partnership deed; guarantee letter; trial brief; shareholder resolution
claim: water damage claim; unpaid rent; lost profits; defamation point; warranty claim; penalty clause; moving costs
remedy: mediation; an appeal; a counterclaim; interim relief; arbitration; summary judgment; security for costs
court: Regional Court; Tenancy Tribunal; Court of Appeal; County Court; Commercial Bench; Labour Court; Chancery
style: numbered paragraphs; short headings; a one page summary; wide margins; a table of dates; footnotes; plain English
topic: burden of proof; disclosure; legal aid; limitation; hearsay; enforcement; jurisdiction; witness preparation
thing: a chronology; a skeleton argument; a retainer; a bailiff; a court interpreter; a conflict check; a draft order
act: narrowing the issues; indexing the bundle; rehearsing the testimony; calling the clerk; splitting the hearing
aspect: credibility; speed; leverage; thrift; precision; publicity; fairness; cash flow; precedent
""",
    facts={
        "constraint": """
u Everything in the <{matter}> file is privileged, it [stays inside the office].
u Letters to the other side in <{matter}> [go out through {person} exclusively].
u Kindly [refrain from contacting] the <{matter}> witnesses yourself.
u In <{matter}>, [no draft leaves the house without two signatures].
u The original <{doc}> [may only be viewed in the vault]. Please work from the scan.
u names have to be [blacked out] in the <{doc}> [before it is copied].
u We are [barred from quoting] the <{doc}> anywhere, by order of the judge.
u [concede nothing] in <{matter}> about the {claim} [unless I say so in writing].
a May our client talk to reporters about <{matter}>? / u [Absolutely not, total silence] until there is a verdict.
""",
        "preference": """
u I am partial to [{style}] in the <{doc}>.
u Judge {last} is known to appreciate [{style}], which should guide us in <{matter}>.
u my ideal <{doc}> has [{few} pages, tops].
u When you summarise <{matter}>, it's nicest if you [start with the money].
u I find it easier when <{matter}> updates come [once a week, in a single message].
""",
        "decision": """
u We shall seek [{remedy}] in <{matter}>.
u The partners have met: <{matter}> [will be settled out of court].
u the client has opted for [{remedy}] in <{matter}>, against my advice.
u We are [giving up the {claim}] in <{matter}>, it isn't worth the fees.
u [{person}] it is, then, as our expert in <{matter}>.
a Who should do the questioning in <{matter}>, {person} or {person2}? / u [{person2}], no question.
a Two routes remain in <{matter}>, {remedy} and {remedy2}. Which do you favour? / u I would say [{remedy}], it is safer.
""",
        "number": """
u Court fees in <{matter}> add up to [{big} pounds].
u Our hourly rate for <{matter}> was fixed at [{n} pounds].
u the <{doc}> runs to [{n} pages], happy reading.
a By my count the <{matter}> bundle contains [{n} exhibits].
u Opposing counsel put [{big} pounds] on the table in <{matter}>, can you believe it.
""",
        "name": """
u Presiding in <{matter}> is [{person}].
u The expert behind the <{doc}> goes by the name of [{person}].
u [{person}] represents the other side in <{matter}>.
u Our star witness in <{matter}>, that would be [{person}].
""",
        "date": """
u Site inspection in <{matter}>: [{date}] at {time}, bring boots.
u The claim in <{matter}> becomes time-barred on [{date}].
u Our reply to the <{doc}> is due [{date}].
u {person} gives evidence in <{matter}> on [{date}].
u the other side got an extension until [{date}] for the <{doc}>.
""",
        "change": """
u We are asking for [{big} pounds] in <{matter}>. >> u After the valuation we demand [{big2} pounds] in <{matter}>.
u <{matter}> is listed for [{date}]. >> u The clerk called, <{matter}> got relisted for [{date2}].
u [{person}] is handling <{matter}> for us. >> u As of today [{person2}] is in charge of <{matter}>.
u <{matter}> is pending before the [{court}]. >> u Transfer granted, <{matter}> sits with the [{court2}] from here on.
u You'll find the <{doc}> in [cabinet {n}]. >> u we tidied up, look for the <{doc}> in [cabinet {n2}].
u We set aside [{n} hours] for <{matter}>. >> u To be realistic, <{matter}> is going to need [{n2} hours].
""",
        "identifier": """
t filed electronically: <{matter}>, docket [{n}-CV-{n2}]
t uploaded <{doc}>, checksum [{hash}]
t exhibit for <{matter}> registered as [EX{few}-{hash}]
t fee slip <{matter}>: [{code}/{few}]
t submission of <{doc}> bounced: [reason {n}-{few}]
t scan complete, <{doc}> is at [archive/{hash}.tif]
""",
    },
    tools="""
what does the docket say | court_docket ("court": "{court}") | {date} {time} no. {n}: {thing}, {few} pages | See above.
Please look for precedents. | search_rulings ("query": "{topic}") | {court} {n}/{few} of {date}, {topic}, cited {n2} \
times | A few of these could be of use, most are distant.
pull up the time sheets | time_sheets ("month": {few}) | {date} {first} {decimal} h {act} | So much has been entered.
""",
    blocks=(
        "| date | event | page |\n| --- | --- | --- |\n| {date} | {thing} | {n} |*",
        "Dear {last},\n\nwe refer to your letter of {date}.\n{n}. As to {topic}, we reserve our position.*\n\nYours",
    ),
    **_COMMON,
)

GAME = Domain(
    name="game studio",
    pools=_PEOPLE
    + _EVERYDAY
    + """
level: Ashen Causeway; Drowned Library; Salt Catacombs; Clockwork Bazaar; Frostbite Hangar; Mirror Swamp; \
Ember Chapel; Hollow Reactor; Tidal Prison; Moth Cathedral; Rusted Orchard; Velvet Mines; Sunken Arcade; Glass Dunes
system: pathfinding; save system; inventory; dialogue editor; physics layer; netcode; photo mode; crafting menu; \
weather simulation; quest log; audio mixer; minimap; matchmaking; boss AI; camera rig; replay viewer
stream: cert-candidate; gold-master; demo-public; console-port; shared-engine; day-one-patch; loc-text; qa-nightly
platform: Switch; Steam Deck; PlayStation; Xbox; Android; the arcade cabinet; macOS
tool: Blender; Houdini; Wwise; FMOD; Unreal; Spine; Substance; Maya; ZBrush; Tiled; Aseprite; RenderDoc
option: behaviour trees; rollback; signed distance fields; an entity component system; Lua scripts; baked navmeshes; \
state machines; texture streaming; vertex animation; a job graph; delta compression
look: muted colours; long shadows; cel shading; heavy fog; neon rims; film grain; hand-painted skies; flat silhouettes
topic: frame pacing; level streaming; crash triage; playtesting; accessibility; hit detection; scope; asset naming
thing: a vertical slice; a profiler; a style guide; a debug menu; a bug bash; a build farm; a storyboard; a heat map
act: baking the lights; greyboxing the arena; merging the branches; stubbing the audio; recording gameplay; cutting lore
aspect: readability; game feel; memory; morale; iteration speed; polish; difficulty; replay value; disk space
""",
    facts={
        "constraint": """
u Treat the <{stream}> stream as frozen: [nothing gets submitted] there [till {person} lifts it].
u [Make a backup before] you regenerate any data of the <{system}>. We lost a week once.
u you get [at most {few} parallel jobs] for baking <{level}>, the farm is shared.
u [Old saves have to keep loading], no matter what you change in the <{system}>.
u <{level}> [is under embargo], so [leave it out of public notes].
u [Sign-off from {person} is mandatory] for anything that alters the <{system}>.
u [Flashes faster than {few} hertz are banned] in <{level}>, think of players with epilepsy.
a Can I overwrite the reference screenshots of <{level}> where they differ? / u [Nope, show me the diff] and wait.
""",
        "preference": """
u Given the choice I'd take [{tool}] for the <{system}>.
u patch notes about the <{system}> read best [with a bit of humour].
u I'm a fan of [{look}] for <{level}>.
u Could the <{system}> logs be [one line per event]? I hate scrolling.
u in <{system}> scripts I enjoy seeing [early returns and tiny functions].
""",
        "decision": """
u Verdict after the playtest: <{level}> [is cut from the demo].
u we're building the <{system}> [on top of {option}].
u {first} convinced everybody, so it's [{option}] for the <{system}>.
u Scope cut, sorry: the <{system}> [ships without {platform} support].
u [{tool}] replaces {tool2} for the <{system}>, the contract is signed.
a Should the <{system}> get its overhaul now, or after launch? / u [After launch].
a I could do the <{system}> with {option} or with {option2}. Your call? / u let's have [{option2}], please.
""",
        "number": """
u The frame budget for <{level}> is [{decimal} milliseconds].
u <{level}> weighs in at [{n} megabytes] on disk.
u We got [{big} wishlists] out of the <{level}> trailer.
a The profiler says that the <{system}> allocates [{n} kilobytes] per frame.
u playtesters died [{n} times] in <{level}> lol.
""",
        "name": """
u [{person}] composed the theme of <{level}>.
u The go-to human for the <{system}> is [{person}].
u bugs in <{level}> get assigned to [{person}].
a According to the changelists, [{person}] was the last to rework the <{system}>.
""",
        "date": """
u Content lock for <{level}>: [{date}].
u Certification of the <{system}> begins [{date}].
u we show <{level}> to the press on [{date}].
u The middleware licence for the <{system}> lapses on [{date}].
u {first} is on parental leave till [{date}], the <{system}> has to wait for that.
""",
        "change": """
u The spawn cap in <{level}> is [{n} enemies]. >> u Retuned it, <{level}> spawns [{n2} enemies] at most.
u The demo with <{level}> drops on [{date}]. >> u marketing slid the <{level}> demo to [{date2}].
u [{person}] voices the narrator in <{level}>. >> u Recast! The narrator of <{level}> is [{person2}].
u The <{system}> targets engine version [{version}]. >> u Bumped the <{system}> to [{version2}] last night.
u Polishing the <{system}> should take [{n} hours]. >> u I have a new estimate for the <{system}>, [{n2} hours].
u <{level}> cutscenes are made in [{tool}]. >> u {tool} kept crashing, <{level}> cutscenes are in [{tool2}] now.
""",
        "identifier": """
t cooked <{level}> for {platform}: [build_{n}_{hash}]
t changelist [CL{n}{few}] submitted to <{stream}>
t crash bucket for <{system}>: [0x{hash}]
t {few} suites green, 1 red: <{system}> [Spec_{hash}]
t packed <{level}> into [paks/{hash}.pak]
t assertion in <{system}>: [ERR_{n}_NULL_HANDLE]
""",
    },
    tools="""
kick off a build pls | start_build ("target": "{platform}") | [{few}/{n}] {system} took {decimal}s cache={hash} | Built.
Open the crash dumps from last night. | list_crashes ("since": "{date}") | {time} {level} {platform} thread {few} \
frame {n} addr {hash} | Most of them look like the ones we know.
profile it | run_profiler ("level": "{level}") | frame {n} cpu {decimal} ms draws {n2} | It wobbles, which is normal.
grep the scripts for it | grep_scripts ("pattern": "{hash}") | zone_{few}.lua:{n}: call_{hash}() | That is it.
""",
    blocks=(
        "```lua\nfunction on_enter(zone)\n  if zone.id == {n} then spawn({few}, {n2}) end*\n  return zone\nend\n```",
        "| level | fps | memory |\n| --- | --- | --- |\n| {level} | {n} | {decimal} MB |*",
    ),
    **_COMMON,
)

DOMAINS = (CARE, LAW, GAME)
