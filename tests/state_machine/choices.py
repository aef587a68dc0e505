"""What the rules choose from."""

from hypothesis import strategies as st

from tests.state_machine.meanwhile import ACTIONS
from tests.state_machine.teller import FAILED, REFUSED, TRANSIENT, Answer

#: A choice among as many things as there happen to be.
any_of = st.integers(0, 999)

tokens = st.one_of(st.integers(5, 60), st.integers(5, 600))

#: For each reply of a turn how many tools it calls, and how many of them answer.
work = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=4)
long_work = st.lists(st.tuples(st.integers(1, 3), st.just(3)), min_size=2, max_size=9)

roles = st.sampled_from(["user", "user", "user", "assistant", "assistant", "system", "developer"])
styles = st.sampled_from(["plain", "plain", "blank", "wide"])

in_a_copy = st.sampled_from("turn turn fork redact redact delete compact compact copy hand_over retire".split())

#: What a commit has to look at comes more often than what must not disturb it.
_OFTEN = ["retire_base", "retire_base", "redact", "delete_tip", "delete", "steal", "steal_and_die"]
meanwhile = st.tuples(st.sampled_from([*ACTIONS, *_OFTEN]), any_of, any_of)
_fills = st.sampled_from([0.1, 0.5, 1.0, 1.4])
answers = st.one_of(
    st.builds(Answer, fill=_fills),
    st.builds(Answer, fill=_fills),
    st.builds(Answer, fill=_fills, during=meanwhile),
    st.builds(Answer, fill=_fills, during=meanwhile),
    st.builds(Answer, kind=st.sampled_from(["oversize_once", *REFUSED, *FAILED, *TRANSIENT])),
    st.builds(Answer, kind=st.sampled_from(["oversize", *FAILED, *TRANSIENT]), during=meanwhile),
)

_SETTINGS = {
    "CONTEXT_WINDOW": st.sampled_from([400, 800, 1500, 1500, 2500, 2500, 4000]),
    "RESERVED_TOKENS": st.sampled_from([0, 100, 8192]),
    "LOOKAHEAD": st.sampled_from(["previous_turn", "previous_turn", "tip", "none"]),
    "PRUNE": st.sampled_from(["pressure", "always"]),
    "PRUNE_TOOL_RESULT_BYTES": st.sampled_from([64, 200, 1000, 4096]),
    "PRUNE_KEEP_TURNS": st.integers(1, 3),
    "MICRO_COMPACT": st.booleans(),
    "RECENT_MESSAGES_RATIO": st.sampled_from([0.05, 0.1, 0.2, 0.4]),
    "TRIGGER_RATIO": st.sampled_from([0.5, 0.75, 0.9]),
    "TARGET_RATIO": st.sampled_from([0.25, 0.5, 0.7]),
    "PRESERVE_RECENT_MESSAGES": st.sampled_from([2, 2, 3, 5]),
    "SUMMARY_TARGET_TOKENS": st.sampled_from([20, 120, 7500]),
    "COOLDOWN_SECONDS": st.sampled_from([0, 0, 60]),
    "EXTRACT_FALLBACK": st.booleans(),
    "MODE": st.sampled_from(["standard"] * 7 + ["aggressive", "deterministic", "off", "manual"]),
    # How to write is of no use to a summarizer that does not read it; it would fill the smallest ones.
    "SUMMARIZER": st.just({"NAME": "default", "PROMPT": "Sum it up."}),
}
settings = st.fixed_dictionaries(_SETTINGS)
some_settings = st.fixed_dictionaries({}, optional=_SETTINGS)
max_input = st.sampled_from([None, None, None, 900, 1300, 2500])
