"""Vocabularies of conversations that the engine may be tuned on: a payment service, a house."""

from __future__ import annotations

from benchmarks.evaluate.conversations import Domain

_PEOPLE = """
person: {first} {last}
first: Amira; Bastian; Chidi; Dagny; Emre; Fiona; Gustavo; Hana; Ivo; Jolanta; Kofi; Leila; Milos; Noor; Odile; Petra; \
Quirin; Rosa; Sunniva; Tariq; Ursula; Viktor; Wanda; Yusuf
last: Aldaba; Brandvold; Castellan; Dirksen; Eberhart; Fontaine; Grimaldi; Halloran; Ishikawa; Janssen; Kowalczyk; \
Lindqvist; Marchetti; Nakamura; Oyelaran; Pfeiffer; Quiroga; Rasmussen; Sandoval; Tennant; Uhlmann; Vasquez; Wentworth
"""
_PROSE = """
In most cases the {topic} is the part that people underestimate, because it only shows once {thing} is in place.
There are three things to weigh here: {aspect}, {aspect2} and, less obviously, {aspect3}.
I would treat {topic} and {topic2} as one question, since every answer to the first changes the second.
Generally speaking, {thing} never fails on its own; something around {topic} gives way first.
Many people swear by {act}, and to be fair it does help with {aspect}.
Think of {thing} as insurance: you hardly notice it until {topic} goes wrong.
None of this is urgent, but {act} tends to be cheaper early on.
To sum up, {topic} first, then {thing}, and only then {act}.
The literature on {topic} is mixed: roughly {n} reports praise {act}, about as many warn of {aspect}.
It is a bit like packing for a journey, where {aspect} decides what you leave at home.
"""
#: What small talk is about: it has rare words, names and numbers too, and nobody needs them later.
_EVERYDAY = """
dish: lentil soup; burnt lasagne; cold dumplings; rhubarb cake; a soggy sandwich; goulash; pickled herring; pancakes; \
a dry falafel; mango ice cream; onion tart; porridge; ramen; a mountain of fries; gazpacho; stuffed peppers
hobby: bouldering; bird watching; the accordion; crosswords; pottery; salsa; beekeeping; chess; sudoku; knitting; darts; \
rowing; origami; table tennis; baking sourdough; old radios
animal: a hedgehog; two magpies; the neighbour's tomcat; a fox; seven ducks; a moth; somebody's parrot; a lost spaniel; a \
wasp; an owl; a toad; a runaway hen
relative: aunt; brother-in-law; grandmother; cousin; godson; flatmate; niece; uncle; mother; old classmate; father; twin
mishap: spilled tea over the keyboard; missed the tram by a hair; locked the bike to the wrong fence; slept through three \
alarms; lost a glove; burnt the toast; sat on my glasses; dropped the phone in the sink; wore odd socks; tore my sleeve
weather: drizzle; hail; thick fog; a heat wave; frost; sleet; a proper storm; blazing sun; thaw; gusts; mist; a rainbow
film: a documentary on whales; some zombie film; the new spy series; an old western; a musical; a courtroom drama; a quiz \
show; a cartoon; the cup final; a cooking contest; a silent film; the eclipse broadcast
mood: tired; cheerful; restless; oddly calm; hungry; hoarse; grumpy; full of energy; sentimental; a bit lost; relieved
"""
_CHAT = """
I {mishap} this morning, so forgive me if I sound {mood}. / Oh dear! It happens to the best of us.
There was {animal} on the balcony at {time}, in {weather}, staring at me. / What a picture. Did it stay?
For lunch there was {dish} and I regret every bit of it, feeling {mood} now. / A walk may help.
still {weather} outside. reminds me of that holiday with {person} where we ate {dish} every day / Some memories stick.
must be the {weather}, everybody here is {mood} today / It does affect people.
My {relative} never learned {hobby}, always said it was for people with too much time. / Each to their own.
Good morning! Slept badly, the neighbours had a party again. / Good morning! I hope there is coffee. Where shall we start?
Never mind, I found it myself. / Glad to hear it! Let me know if anything else comes up.
my sister just called, she always says I work too much / She may have a point! We can go through the rest tomorrow.
It must have been special, that concert yesterday. Did you ever hear {person} play? / I only know the recordings.
ok / Good.
I have to run, back in {few} minutes / No problem, I will be here.
haha I agree! / :)
"""
_BEFORE = """
I'm {mood} today, {dish} for breakfast.
My {relative} says hello, by the way.
Before I forget.
Something else.
Right, next point.
Let's go on with {topic}.
"""
_AFTER = """
Must go and feed {animal} now, or what passes for that here.
Anyway, how far are we with {topic}?
Can you tell me more about {aspect}?
I'll get another coffee.
"""
_CONFIRMS = """
Understood.
Got it. Shall we look at {topic} next?
All right. There is also {thing} to think about at some point.
"""
_COMMON = {"prose": _PROSE, "chat": _CHAT, "before": _BEFORE, "after": _AFTER, "confirms": _CONFIRMS}

PAYMENTS = Domain(
    name="payments",
    pools=_PEOPLE
    + _EVERYDAY
    + """
service: ledger-writer; refund-worker; invoice-api; fx-rates; card-vault; payout-batch; webhook-relay; fraud-scorer; \
tax-engine; statement-mailer; audit-sink; dispute-queue; limits-guard; kyc-gateway; settlement-sync; plan-catalog
table: payments_archive; customer_tokens; payout_lines; fx_snapshots; ledger_entries; refund_reasons; audit_events; mandates
module: retry; ledger/post; fx/convert; webhooks/sign; payouts/plan; cards/mask; tax/rules; limits/window; mail/render
env: staging; production; the sandbox; the DR site; preprod; the load-test cluster
branch: main; release/24; hotfix/fx; the vendor fork; develop; gh-pages
tool: Terraform; Kafka; Grafana; Vault; Redis; Celery; Argo; Prometheus; Helm; Temporal; Sentry; ClickHouse
option: idempotency keys; an outbox table; two-phase locks; event sourcing; nightly batches; optimistic locking; \
feature flags; blue-green switches; shadow writes; a dead-letter topic; cursor pagination; signed URLs
topic: retry handling; connection pooling; schema migration; the outbox pattern; alert routing; key rotation; rate \
limiting; cache invalidation; partitioning; backfilling; contract testing; observability
thing: a queue; a circuit breaker; an index; a replica; a canary; a feature flag; a runbook; a dashboard; a lock; a lease
act: sharding the table; batching the writes; tracing every call; replaying the events; pinning the versions; splitting \
the service; caching the rates; mocking the gateway
aspect: latency; throughput; operational load; consistency; blast radius; cost; team size; auditability; cold starts
""",
    facts={
        "constraint": """
u [Never push] to <{branch}> [without asking] me.
u Whatever happens, [do not delete] anything in <{table}>.
u Please [always] run the <{service}> tests [before you commit] a change there.
u One rule for <{env}>: [no deploys after {time}], and none on a {day} either.
u You [must not log] card numbers, not even in <{service}>.
u [Ask {person} first] if you want to touch <{service}>.
u Customer mails go out [only] from <{env}> [with my approval].
u Hands off <{table}>: [read-only] for you, [no exceptions].
a May I restart <{service}> myself if it hangs? / u [No, page {person} instead].
""",
        "preference": """
u I [prefer {option}] over anything clever when it comes to <{service}>.
u Keep the answers on <{topic}> [short, with the code first].
u I'd rather have [plain SQL than the ORM] in <{service}>.
u For dashboards I like [{tool}] better, <{service}> included.
u Don't bother me with <{topic}> [unless it costs more than {n} euros].
u Write commit messages for <{service}> in the [imperative, under {n} characters].
""",
        "decision": """
u We'll go with [{option}] for <{service}>.
u After a long discussion with {first} we settled on [{tool}] for <{topic}>.
a Do we keep {tool} for <{service}>, or do we move to {tool2}? / u [Move to {tool2}].
u <{service}> will be [rewritten in Rust], that's final.
u {person} and I agreed to [drop {option}] from <{service}>.
a There are two ways for <{topic}>: {option}, or {option2}. Which one? / u [The second one, {option2}].
u Decision from today's meeting: <{service}> [stays in {env}] until the audit is over.
""",
        "number": """
u <{service}> handles about [{big}] requests a minute at peak.
u The SLA for <{service}> is [{n} milliseconds] at the 99th percentile.
a I measured it twice, and <{table}> has [{big} rows] with duplicates.
u We pay {tool} [{big} euros] a year for <{service}>.
u The pool of <{service}> must not go over [{n} connections].
u Retries in <{service}>: at most [{few}], with {decimal} seconds between them.
""",
        "name": """
u <{service}> belongs to [{person}] from the platform team.
u If <{table}> is corrupt call [{person}], she has the keys.
u The auditor for <{topic}> is called [{person}].
u Our contact at {tool} is [{person}], about <{service}>.
a I looked through the history: <{service}> was written by [{person}].
""",
        "date": """
u The <{service}> migration is planned for [{date}].
u <{table}> has to be gone by [{date}], legal wants it.
u The certificate of <{service}> runs out on [{date}].
u {person} is away until [{date}], so nobody reviews <{service}> before.
u Freeze for <{service}> starts on [{date}] at {time}.
""",
        "change": """
u The timeout of <{service}> is [{n} ms]. >> u {first} raised the <{service}> timeout to [{n2} ms].
u <{service}> runs version [{version}] right now. >> u We upgraded <{service}>, it is on [{version2}] now.
u <{service}> goes live on [{date}]. >> u The launch of <{service}> moved to [{date2}].
u On call for <{service}> this month: [{person}]. >> u {first} swapped, so [{person2}] is on call for <{service}>.
u The budget for <{service}> is [{big} euros]. >> u Finance cut the <{service}> budget to [{big2} euros].
u <{service}> listens on port [{n}]. >> u Mind you, <{service}> moved to port [{n2}] because of a clash.
""",
        "identifier": """
t deployed <{service}> as [dep-{hash}] in {n}s
t {few} failed, {n} passed: FAILED <{module}>::[test_{hash}]
t created ticket [{code}] for <{service}>
t commit [{hash}] pushed: <{module}>
t Error: <{service}> rejected the batch: [E{n}_DUPLICATE_KEY]
t wrote /var/exports/<{service}>/[run-{hash}.csv]
t ====== [{few} failed, {n} passed] in {decimal}s: <{module}> ======
""",
    },
    tools="""
Have a look at the log please | read_log ("path": "/var/log/{module}.log") | 2026-05-0{few} 0{few}:{n} INFO  [worker-{few}] handled {n} items in {decimal} ms status=200 trace={hash} | The log shows nothing alarming around {topic}.
run the tests again | run_tests ("path": "tests/{module}") | tests/{module}/test_case_{n}.py::test_{few} PASSED [ {few}%] | Done, see above.
what's in there? | list_files ("dir": "src/{module}") | -rw-r--r-- 1 ci ci {n} {date} 0{few}:{n} {hash}.py | That is what the folder holds.
query it | run_sql ("sql": "select * from {table} limit {n}") | {n} ; {hash} ; {decimal} ; {service} ; {date} 2026 | These rows look as I would expect.
""",
    blocks=(
        "```python\ndef handle_{few}(batch, *, limit={n}):\n    for item in batch:\n        if item.amount > {n}: continue*\n    return batch\n```",
        "| service | p50 | p99 | errors |\n| --- | --- | --- | --- |\n| {service} | {n} ms | {n2} ms | {decimal} % |*",
    ),
    **_COMMON,
)

HOUSE = Domain(
    name="house",
    pools=_PEOPLE
    + _EVERYDAY
    + """
room: kitchen; north bedroom; bathroom; hallway; cellar; attic; pantry; laundry room; guest room; study; porch; stairwell; \
garage; conservatory; nursery; larder
part: boiler; roof gutter; fuse box; chimney flue; oak floor; bay window; septic tank; stair rail; water meter; heat pump; \
dormer; garden wall; skylight; sewage pipe; porch beam; mixer tap
colour: sage green; chalk white; terracotta; slate blue; ochre; mustard; charcoal; oyster; burgundy; pale mint
material: limewash; cork; larch; linoleum; clay plaster; slate; terrazzo; hemp wool; zinc; travertine; cellulose; brass
firm: Brightwater & Sons; Hollis Carpentry; Nordtak; Pellegrino Tiles; Vance Electric; Meridian Heating; Oakhurst Joinery; \
Castle Plumbing; Tilewright; Greystone Masonry
topic: damp proofing; underfloor heating; sound insulation; rewiring; planning permission; lime mortar; drainage; the \
order of trades; ventilation; energy grants; sash windows; scaffolding
thing: a dehumidifier; a vapour barrier; a second quote; a skip; a spirit level; a structural survey; a drawing; a sample board
act: stripping the paint; lifting the boards; chasing the walls; sanding by hand; sealing the joints; hiring a surveyor
aspect: noise; dust; cost; durability; the look of it; drying time; resale value; weight; maintenance; fire safety
""",
    facts={
        "constraint": """
u [Never order] anything for the <{room}> [without asking] us.
u The <{part}> is listed, it [must not be removed].
u [Nobody drills] into the <{room}> wall, there are [live cables] behind it.
u No work in the <{room}> [before {time}], the baby sleeps next door.
u My son is allergic, so [no {material}] in the <{room}>.
u [Don't pay] {firm} for the <{part}> [until {person} has signed it off].
u [Always turn off the gas] before anyone touches the <{part}>.
a Can I tell {firm} to start on the <{part}>? / u [Not before the permit is here].
""",
        "preference": """
u I'd love [{material}] in the <{room}>.
u We like the <{room}> [bright, without ceiling lamps].
u I can't stand [{colour}], so please not in the <{room}>.
u {first} prefers [{material}] to {material2} for the <{part}>.
u Please give me prices for the <{part}> [with VAT].
""",
        "decision": """
u OK, the <{room}> gets [{colour}].
u We chose [{firm}] for the <{part}>.
a Which colour do you want for the <{room}>, {colour} or {colour2}? / u [{colour2}].
u The <{part}> [stays as it is], we only clean it.
u {first} and I decided [against {material}] in the <{room}>.
u Let's [knock down the wall] between the <{room}> and the corridor.
a Shall I accept the offer of {firm} for the <{part}>? / u [Yes, accept it].
""",
        "number": """
u The <{room}> is [{decimal} square metres].
u {firm} quoted [{big} euros] for the <{part}>.
u The beam over the <{room}> carries [{n} kg] at most.
u Ceiling height in the <{room}>: [{n} cm].
a According to the drawing the <{part}> needs [{n} litres] a day.
""",
        "name": """
u The surveyor who did the <{part}> is [{person}].
u [{person}] from {firm} is our man for the <{room}>.
u The neighbour who complains about the <{part}> is called [{person}].
u Keys for the <{room}> are with [{person}] at number {few}.
""",
        "date": """
u The <{part}> arrives on [{date}].
u {firm} starts with the <{room}> on [{date}].
u The permit for the <{part}> ends on [{date}].
u My parents move into the <{room}> on [{date}].
""",
        "change": """
u The <{room}> will cost us [{big} euros]. >> u With the new pipes the <{room}> comes to [{big2} euros].
u {firm} comes for the <{part}> on [{date}]. >> u They rang, the <{part}> is now on [{date2}].
u Paint the <{room}> in [{colour}]. >> u I changed my mind about the <{room}>: [{colour2}].
u The plumber for the <{part}> is [{firm}]. >> u [{firm2}] takes over the <{part}>, the others went bust.
u We want the <{part}> [{n} cm] wide. >> u Measured again, the <{part}> has to be [{n2} cm].
""",
        "identifier": """
t order confirmed: <{part}>, reference [{code}]
t quote saved as [offers/{hash}.pdf] for the <{room}>
t permit for <{part}>: file number [{code}/{n}]
t payment to {firm} failed: <{part}>, [code {n}-{few}]
t serial number of the <{part}>: [SN{hash}]
""",
    },
    tools="""
search for offers please | search_offers ("q": "{material} {room}") | {firm} ; {material} per m2 ; {decimal} euros ; {few} weeks ; rating {few} | Here are some offers. Prices differ mostly in delivery.
can you check the mails? | read_mail ("folder": "house") | {date} {time} {firm} Re: {topic}, see attachment {n} | Nothing there that needs an answer today.
look at the plan file | read_file ("path": "plans/{room}.txt") | layer {n} ; wall {few} ; {decimal} m ; {material} ; note {n} | That is the plan as it was saved.
""",
    blocks=(
        "| room | area | floor | price |\n| --- | --- | --- | --- |\n| {room} | {decimal} m2 | {material} | {big} |*",
        "Typical steps:\n\n1. Measure twice.\n2. Buy {n} percent more {material} than needed.\n3. Let it rest for {few} days.\n- a note on {topic}*",
    ),
    **_COMMON,
)

DOMAINS = (PAYMENTS, HOUSE)
