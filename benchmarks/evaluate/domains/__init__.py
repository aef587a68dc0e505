"""Vocabularies of grown conversations. The engine may be tuned on some, and is never tuned on those that are held out.

The form of a template is that of ``conversations``. The held-out domains say the same kinds of things in other words.
"""

from benchmarks.evaluate.domains import (
    care_law_games,
    payments_house_field_theatre,
    practice_roastery,
    robots_school_journey,
)

TUNED = (*payments_house_field_theatre.DOMAINS, *practice_roastery.DOMAINS, *care_law_games.DOMAINS)
HELD_OUT = robots_school_journey.DOMAINS
