"""Traps for a summarizer: a claim, and what denies, limits or corrects it, planted in a conversation.

A summary that tells the claim without the rest misleads. One that tells both is true, and so is one without either.

A trap is grown from a template: ``messages => claim => what keeps it true``. Messages stand between " / ", each begins
with its speaker; ``*`` marks the message with the claim where it is not the first, ``+`` the one before which other
messages may stand. ``[…]`` is the part of a sentence without which it misleads, ``<a|b>`` a choice, ``{A}`` something
made up (``_POOLS``). In the patterns ``~`` are other words of the same statement (of what follows, for what keeps it
true), and ``~~`` any words. No pattern depends on an article or a greeting: summaries drop them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product


@dataclass(frozen=True)
class Trap:
    id: str
    kind: str
    #: (speaker, text): speakers are 0 and 1.
    messages: tuple[tuple[int, str], ...]
    #: Found where the claim is told.
    claim: str
    #: Found where what makes it true is told.
    kept_true_by: str
    #: How many other messages stand before the last of these.
    gap: int
    language: str
    #: What a summary that misleads would say, and all that was said besides.
    claim_text: str
    correction: str


#: Beginnings, middles and ends of names that nobody has.
Syllables = Mapping[str, tuple[tuple[str, ...], ...]]

SYLLABLES: Syllables = {
    "": (
        ("Vel", "Tasq", "Orm", "Quil", "Breth", "Zant", "Ith", "Hesk", "Mord", "Drev", "Fenn", "Lyss", "Jor", "Kav"),
        ("a", "e", "i", "o", "u"),
        ("dric", "mont", "quin", "by", "sket", "rane", "vik", "loe", "thorpe", "nell", "wick", "zer"),
    ),
    "ru": (("Вельт", "Зор", "Брун", "Тарм", "Клен"), ("о", "и", "у"), ("гард", "мель", "вист", "занд", "ток")),
    "zh": (("柏", "黎", "岑", "宓", "荀"), ("霁", "蔚", "岚", "澈"), ("坞", "堰", "棠", "屿")),
}

#: Each letter of a template is drawn from one pool, so that two of a pool differ.
_POOLS = {"names": "AB", "numbers": "nm", "times": "tu", "dates": "de", "identifiers": "ij", "versions": "vz"}
_LETTERS = {letter: pool for pool, letters in _POOLS.items() for letter in letters}
_MONTHS = ("January", "February", "March", "May", "June", "July", "October", "November")
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
#: A claim of these kinds is made true by any plain denial of it, in whatever words a summary has.
_DENIABLE = {"denial", "cancellation", "question", "permission", "retraction"}
_DENIAL = r"(?:not|never|no longer|cancel\w*|declin\w*|refus\w*|\w+n['’]t)\b"


def traps(seed: int) -> list[Trap]:
    """About two hundred, the same for the same seed."""
    return grow("tuned", TEMPLATES, SYLLABLES, seed)


class _Drawn(dict[str, str]):
    """The values of one trap by letter, drawn when they are first asked for."""

    def __init__(self, dice: random.Random, pools: Mapping[str, Iterator[str]]) -> None:
        super().__init__(zip("wx", dice.sample(_WEEKDAYS, 2), strict=True))
        self._pools = pools

    def __missing__(self, letter: str) -> str:
        if letter in "ab":
            return self[letter.upper()].lower()
        self[letter] = next(self._pools[_LETTERS[letter]])
        return self[letter]


def grow(prefix: str, templates: str, syllables: Syllables, seed: int, copies: int = 2) -> list[Trap]:
    """Every template once in a random order, then again: ``copies`` times. Only weekdays are used twice.

    Traps of one template are alike but for their values, so they belong into different conversations.
    """
    dice = random.Random(f"{prefix} {seed}")
    pools = {language: _pools(dice, parts, language) for language, parts in syllables.items()}
    grown: list[Trap] = []
    for _ in range(copies):
        first = len(grown)
        kind, language = "", "en"
        for paragraph in re.split(r"\n(?=\S)", templates.strip()):
            if paragraph.startswith("#"):
                kind, language = [*paragraph[1:].split(), "en"][:2]
            else:
                drawn = _Drawn(dice, {**pools[""], **pools.get(language, {})})
                name = f"{prefix}-{kind}-{len(grown) + 1}"
                grown.append(_trap(name, kind, language, " ".join(paragraph.split()), drawn, dice))
        grown[first:] = dice.sample(grown[first:], len(grown) - first)
    return grown


def _pools(dice: random.Random, parts: tuple[tuple[str, ...], ...], language: str) -> dict[str, Iterator[str]]:
    made: dict[str, list[str]] = {"names": ["".join(name) for name in product(*parts)]}
    if not language:
        made["numbers"] = [str(number) for number in range(211, 989) if number % 10]
        made["times"] = [f"{hour}:{minute}" for hour in range(8, 18) for minute in range(11, 60) if minute % 5]
        made["dates"] = [f"{day} {month}" for month in _MONTHS for day in range(2, 29)]
        made["identifiers"] = [f"{a}{b}-{number}" for a in "QXK" for b in "JWV" for number in range(1013, 1900, 17)]
        made["versions"] = [f"{major}.{minor}.{minor - major}" for major in range(2, 9) for minor in range(11, 30)]
    for values in made.values():
        dice.shuffle(values)
    return {name: iter(values) for name, values in made.items()}


def _trap(name: str, kind: str, language: str, template: str, drawn: _Drawn, dice: random.Random) -> Trap:
    told, claim, truth = template.split(" => ")
    told = re.sub(r"<(.+?)>", lambda match: dice.choice(match[1].split("|")), told)
    told = re.sub(r"\{(\w)\}", lambda match: drawn[match[1]], told)
    messages, claims, besides, gap = [], [], [], 0
    for place, message in enumerate(told.split(" / ")):
        marks, text = message.split(" ", 1)
        messages.append((int(marks[0]), re.sub(r"[\[\]]", "", text)))
        if "*" in marks or (place == 0 and not re.search(r" / \d\*", told)):
            claims.append(re.sub(r"\[.*?\]", "", text))
            besides += re.findall(r"\[(.*?)\]", text)
        else:
            besides.append(messages[-1][1])
        if "+" in marks:
            gap = dice.randint(1, 15)
    if kind in _DENIABLE and language == "en":
        truth += rf"|\b{{A}}[^·\n]{{0,80}}\b{_DENIAL}"
    truth = truth.replace("~~", r"[\s\S]*?").replace("~", r"[\s\S]{0,120}?")
    # plain words make it true only near to a name or value of the trap; in a long text they stand anywhere
    made_up = "|".join(f"{{{letter}}}" for letter in sorted(drawn) if letter not in "wx")
    near = r"[\s\S]{0,240}?"
    return Trap(
        id=name,
        kind=kind,
        messages=tuple(messages),
        claim=_pattern(claim.replace("~", r"[^·\n]*"), drawn),
        kept_true_by=_pattern(rf"(?={made_up}){near}(?:{truth})|(?={truth}){near}(?:{made_up})", drawn),
        gap=gap,
        language=language,
        claim_text=" ".join(claims).strip(),
        correction="\n".join(besides),
    )


def _pattern(pattern: str, drawn: _Drawn) -> str:
    """Case does not matter, and a number is not found inside a longer one."""

    def value(match: re.Match[str]) -> str:
        found = re.escape(drawn[match[1]])
        return rf"(?<!\d){found}(?!\d)" if found[0].isdigit() else found

    return "(?i:" + re.sub(r"\{([A-Za-z])\}", value, pattern) + ")"


TEMPLATES = r"""
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
