"""A veterinary practice and a coffee roastery."""

from __future__ import annotations

from benchmarks.evaluate.conversations import Domain

_PEOPLE = """
person: {first} {last}
first: Anselm; Birgitta; Cosmo; Delphine; Ebbe; Farida; Gideon; Hedda; Imran; Jocasta; Kerstin; Lorcan; Maud; Nikos; \
Olwen; Pascal; Renske; Silas; Tamsin; Ulrik; Vesna; Winnie; Zeynep
last: Abernathy; Boulanger; Czerny; Dragovic; Espinoza; Fairweather; Gudmundsen; Hathersage; Ilves; Jagger; Kettering; \
Lombardo; Moriarty; Nystrom; Oppenheim; Palfrey; Rutherglen; Szabo; Tiedemann; Underwood; Vermeulen; Yarrow
"""
_PROSE = """
People new to {topic} often reach for {thing} straight away, although half of them would do fine without.
If I had to rank them, {aspect} comes ahead of {aspect2}, with {aspect3} a distant third.
Textbooks devote whole chapters to {topic}; in practice it boils down to {thing} and some patience.
Broadly, there are two schools: one puts {topic} at the centre, the other starts from {aspect}.
What surprises most newcomers is how much {act} changes {aspect}.
Were it not for {aspect}, hardly anybody would bother with {act}.
Last but not least, {topic} rewards those who write things down.
Over the years, {thing} has turned from a luxury into something fairly ordinary.
It rarely hurts to go over {topic} with fresh eyes, ideally someone else's.
Beware of averages: a mean of {n} may hide anything between {few} and {big}.
To put it differently, {act} buys you {aspect} and you pay with {aspect2}.
Plenty has been written about {act}, most of it by folks who sell {thing}.
An honest answer would be that nobody quite knows why {topic} behaves like this.
Roughly speaking, the effort grows with the square of {aspect}, so keep an eye on it.
Between ourselves, {thing} is overrated when {topic} is in decent shape.
Whichever way you turn it, {topic2} leads back to {topic}.
In the nineties {act} was all the rage, then {thing} came along.
Perhaps the best advice is to try {act} on a quiet afternoon and take notes.
"""
#: Small talk has rare words, names and numbers too.
_EVERYDAY = """
snack: crisps; a stale bun; liquorice; trail mix; yesterday's curry; a banana; oatcakes; chocolate raisins; cold pizza; miso
pastime: sea swimming; model trains; karaoke; stamp collecting; yoga; bridge; embroidery; foraging; bowls; line dancing
gossip: ran off to Portugal; bought a camper van; shaved his beard; got stuck in a lift; painted the shed pink; lost at \
cards; won a ham; is learning the bagpipes; fell off a ladder; adopted a donkey; forgot her own birthday
sight: a double rainbow; a hot-air balloon; roadworks; a marching band; a broken lamp post; an enormous pumpkin; a wedding
kin: stepson; gran; sis; other half; mate from school; landlady; dentist; hairdresser; lad next door; bowling partner
"""
_CHAT = """
you'll laugh, my {kin} {gossip} / I did smile, I admit.
had {snack} at my desk again, {few} crumbs in the keyboard / Crunchy.
passed {sight} near {last} Street at {time}, traffic was bonkers / It sounds like it.
{person} {gossip}, or so my {kin} tells me, anyway / Word travels fast.
trying {pastime} on {day}, wish me luck / Good luck!
{first} brought {snack} for everyone, {n} calories a piece I bet / That is kind, all the same.
my {kin} thinks {pastime} cures everything, {sight} included / A firm believer.
hiya, me again / Hello again! What can I do for you?
pff, {few} phone calls before breakfast, must be a full moon / That does sound busy. Ready when you are.
nah forget it, sorted / Splendid.
did you catch the match on {day}? what a mess / I did not, but I have heard about it.
my knee's playing up again, I swear I shall move to the south one day / I hope it eases off soon.
always the same with the printer, I've had it up to here / Turning it off and on may help, annoying as that is.
cheers!! you're a star / Any time.
remind me how {topic} works? / Gladly: with {thing} in hand, it is mostly a matter of {aspect}.
gotta dash, someone's at the door / See you later.
{first} reckons {act} is a waste of time, but then {first} reckons that of most things / Opinions differ on that one.
tbh I'd never have believed it / Nor would I.
pouring down since {time}, no end in sight / At least the gardens will be pleased.
is it only {day}? feels like a fortnight / It does drag on at times.
so {act}, yay or nay, generally speaking? / It hinges on {aspect}, I would say.
hm. / Take your time.
"""
_BEFORE = """
Just saw {sight}, never mind.
My {kin} {gossip}, imagine.
Right then.
While I've got you:
Bit of housekeeping.
Sorry, got interrupted by {first} with some story about a caravan.
Now for something completely different.
So, back from the break.
Quick one.
"""
_AFTER = """
Does that make sense with regard to {topic}?
Phew, long day.
I'm all ears about {aspect} by the way.
Let me grab a sandwich.
And what was it you said on {act}?
"""
_CONFIRMS = """
Roger that.
Very good.
Makes sense. On to {topic}, then?
Duly filed away. Anything on {thing}?
Fine by me.
"""
_COMMON = {"prose": _PROSE, "chat": _CHAT, "before": _BEFORE, "after": _AFTER, "confirms": _CONFIRMS}

PRACTICE = Domain(
    name="veterinary practice",
    pools=_PEOPLE
    + _EVERYDAY
    + """
animal: Biscuit; Pepper; Nugget; Tinkerbell; Goliath; Mochi; Waffles; Duchess; Ziggy; Barnaby; Clementine; Rocket; Saffron; \
Truffle; Hector; Marmalade; Pickle; Juno; Sherlock; Dumpling
drug: meloxicam; ketamine; gabapentin; amoxicillin; prednisolone; maropitant; furosemide; robenacoxib; insulin; tramadol
device: autoclave; centrifuge; ultrasound; X-ray plate; anaesthesia trolley; dental drill; microscope; incubator; scale; laser
place: ward two; the isolation room; the cattery; the pharmacy cabinet; the front desk; the surgery; the kennels; the yard
food: rice and chicken; the renal diet; hypoallergenic kibble; goat's milk; boiled turkey; pumpkin mash; hay only; fish paste
topic: kidney disease; dental care; vaccination schedules; parasite control; weight management; post-op care; anxiety in \
dogs; microchipping; wound healing; insurance claims; puppy socialisation; pain scoring
thing: a cone collar; a dosing chart; a warm blanket; a second blood sample; a checklist; a feeding log; a triage board
act: clicker training; switching the food; repeating the blood work; weighing daily; hiding the tablets; shaving the coat
aspect: stress; age; appetite; cost for the owner; body weight; recovery time; hygiene; temperament; hydration
""",
    facts={
        "constraint": """
u <{animal}> is [off limits for students], I mean it.
u Under [no circumstances] does <{animal}> get [{drug}].
u Make sure [nobody opens] <{place}> [while the owner is present].
u I'd be furious if anyone used the <{device}> [untrained], so [hold it back].
u Leave the dosing of <{drug}> [to {person}, full stop].
u It's [forbidden] to send results of <{animal}> [by phone].
u <{animal}> bites: [muzzle on before] you do anything.
a Would it be all right to discharge <{animal}> tonight? / u [Keep her in till {person} has seen her].
u We [don't hand out] <{drug}> [unless there's a signature].
""",
        "preference": """
u <{animal}>'s owner is happiest with [a text message, not calls].
u If it's up to me, <{animal}> gets [{food}].
u I'm no fan of [{drug}] for cats like <{animal}>.
u My ideal report on <{animal}> has [one page and a photo].
u {person} fancies [early slots] for <{animal}>.
""",
        "decision": """
u So it's going to be [{drug}] for <{animal}>.
u The vote came out in favour of [leasing] the <{device}>.
a <{animal}> could have the operation here or at the university. What did you settle for? / u [The university].
u [{food}] it is for <{animal}>.
u We're putting [{person}] in charge of <{place}>.
a For <{place}>, would you like shelves or lockers? / u [Lockers].
u <{animal}> [won't be operated on], the owner and I are of one mind.
""",
        "number": """
u <{animal}> weighs in at [{decimal} kg].
u Creatinine of <{animal}> came back as [{n}].
u That <{device}> set us back [{big} euros].
a The chart gives [{decimal} ml] of {drug} for <{animal}>.
u There's room for [{few}{few2} cages] in <{place}>.
u The bill for <{animal}> adds up to [{big} euros].
""",
        "name": """
u <{animal}> lives with [{person}], a retired tram driver.
u If the <{device}> acts up, it's [{person}] you want.
u The specialist who looks after <{animal}> goes by [{person}].
u <{place}> was fitted out by [{person}].
""",
        "date": """
u <{animal}> is booked in for [{date}].
u They'll pick up the <{device}> on [{date}].
u Stitches of <{animal}> come out [{date}].
u The warranty of the <{device}> lapses [{date}].
u Our batch of <{drug}> is good until [{date}].
""",
        "change": """
u <{animal}> is on [{n} mg]. >> u Make it [{n2} mg] for <{animal}> as of today.
u <{animal}> comes in on [{date}]. >> u Owner rang, turns out <{animal}> can only do [{date2}].
u <{place}> is looked after by [{person}]. >> u As of this week [{person2}] does <{place}>.
u <{animal}> eats [{food}]. >> u <{animal}> threw up, so [{food2}] from here on.
u We keep <{drug}> at [{few} degrees]. >> u New leaflet: [{n} degrees] for <{drug}>.
""",
        "identifier": """
t sample of <{animal}> registered under [{code}]
t chip read: <{animal}> [2760{n}{hash}]
t prescription {n} for <{animal}> rejected, [status Q{n2}]
t <{device}> self-test: [{few} of {n} checks not ok]
t archived scan of <{animal}> -> [img_{hash}.dcm]
""",
    },
    tools="""
pull up the diary | diary ("day": "{date}") | {time} {animal} / {last} / {topic} / {few} min | There you are, a day like any other.
what's in stock | stock ("group": "{few}") | {drug} {n} ml lot {hash} shelf {few} | Stock is as it ought to be.
lab values please | lab ("id": "{n}") | ALT {n} U/l  UREA {decimal} mmol/l  K {decimal2} | Within the usual range, by and large.
""",
    blocks=(
        "| animal | kg | temp | fed |\n| --- | --- | --- | --- |\n| {animal} | {decimal} | {decimal2} | {time} |*",
        "Dear owner,\n\nthank you for visiting us on {date}.\n- {thing}, {few} times a day*\n\nYours, the team",
    ),
    **_COMMON,
)

ROASTERY = Domain(
    name="coffee roastery",
    pools=_PEOPLE
    + _EVERYDAY
    + """
bean: Yirga Chefe; Santa Ines; Blue Mandheling; Huila Reserve; Kirinyaga; Antigua Alta; Sidamo Nine; Monsoon Malabar; Tarrazu; \
Finca Rosal; Nyeri Hill; Gayo Black; Harar Gold; Lampung; Cerrado Sul; Kona Prime
machine: drum roaster; destoner; packing line; grinder; cupping table; cold brewer; label printer; forklift; afterburner; \
colour meter
client: Hotel Meridiana; Bakery Lund; Tolk Airlines; Cafe Zuid; Museum Shop; Harbour Canteen; Bistro Pom; Kiosk Nine; \
Gallery Voss; Station Bar; School Board; Cinema Rex
style: light; city; full city; french; omni; filter; espresso; cinnamon
pack: tins; kraft bags; jute sacks; pods; glass jars; refill tubs; pouches with a valve; paper bricks
topic: roast curves; water hardness; green storage; cupping; blending; fair trade audits; shelf life; grinding; export \
papers; chaff disposal; subscription boxes; barista courses
thing: a moisture meter; a sample roaster; a nitrogen flush; a batch sheet; a tasting wheel; a pallet scale; a refractometer
act: preheating longer; blending after the roast; cupping blind; buying forward; resting the beans; sieving by hand
aspect: acidity; body; freshness; margin; shipping time; consistency; energy use; smell; customs
""",
    facts={
        "constraint": """
u Stay clear of the <{machine}> [when the drum is hot].
u <{client}> is [nobody's business but mine]: [route] it [to me].
u [Hold off] on shipping <{bean}> [till the lab says so].
u We'd lose the certificate, hence <{bean}> is [kept apart from the rest].
u [Not a gram] of <{bean}> leaves the house [without a batch number].
u The <{machine}> is [out of bounds after {time}].
u No discounts for <{client}>, [not even a small one].
u If in doubt about <{client}>, [ring {person} before signing] anything.
a Fine to top up <{bean}> with the cheaper lot? / u [Hands off].
""",
        "preference": """
u <{client}> are keenest on [{style}].
u Given the choice I'd have <{bean}> [in {pack}].
u {person} at <{client}> hates [{pack}].
u To my taste <{bean}> is best [{style}].
u <{client}> likes its invoices [on paper, in two copies].
""",
        "decision": """
u <{bean}> it'll be roasted [{style}], that's settled.
u We've plumped for [{pack}] for <{client}>.
a <{client}> wants to know whether you'll do {pack} or {pack2}. / u Tell them [{pack}].
u We are [dropping <{bean}>] from the range.
u In the end {first} talked me round: [no {style}] for <{client}>.
a Where should the <{machine}> go, the front or the yard? / u [The yard].
u We shall [buy the <{machine}> outright] rather than rent.
""",
        "number": """
u Charge for the <{bean}>: [{decimal} kg] per drum.
u <{client}> takes [{n} kilos] a month.
u <{bean}> cost me [{decimal} a kilo] at the port.
u First crack on <{bean}> was at [{n} seconds].
a By my count there are [{n} sacks] of <{bean}> left.
u The <{machine}> draws [{decimal} kilowatts].
""",
        "name": """
u At <{client}> you deal with [{person}].
u <{bean}> reaches us through [{person}], the importer.
u [{person}] services the <{machine}>.
u The farm behind <{bean}> is run by [{person}].
""",
        "date": """
u The container with <{bean}> docks [{date}].
u <{client}> wants the lot delivered by [{date}].
u Inspection of the <{machine}>: [{date}].
u Contract with <{client}> runs out [{date}].
""",
        "change": """
u <{client}> has ordered [{n} kilos]. >> u <{client}> rang, [{n2} kilos] instead.
u <{bean}> lands on [{date}]. >> u Strike at the port, <{bean}> won't be here until [{date2}].
u <{client}> pays [{decimal} a kilo]. >> u With the new list <{client}> is at [{decimal2} a kilo].
u <{bean}> is sold in [{pack}]. >> u From the next batch <{bean}> comes in [{pack2}].
u [{person}] drives for <{client}>. >> u [{person2}] took over the <{client}> tour.
""",
        "identifier": """
t label printed: <{bean}> batch [{code}]
t shipment to <{client}> handed over, tracking [{few}Z{hash}]
t roast of <{bean}> aborted: [fault F{n}]
t customs declaration for <{bean}>: [MRN{n}{hash}]
t saved roast curve <{bean}> [curve-{hash}.alog]
""",
    },
    tools="""
how's the roast | roast_log ("drum": "{few}") | {time} BT {n} ET {n2} RoR {decimal} gas {few} | A curve without surprises.
check the orders | orders ("week": "{few}") | {client} ; {bean} ; {n} kg ; {style} ; {pack} | No surprises among the orders.
any mail? | inbox ("unread": "true") | {date} {time} {first}@{few}.example {topic} | Mostly newsletters.
""",
    blocks=(
        "| lot | kg | moisture | score |\n| --- | --- | --- | --- |\n| {bean} | {n} | {decimal} | {few} |*",
        "Recipe {few}\n\ndose {decimal} g\nwater {n} ml\npour {few} at {time}*",
    ),
    **_COMMON,
)

DOMAINS = (PRACTICE, ROASTERY)
