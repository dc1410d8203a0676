"""Hypothesis strategies for the ticks at which wheels break."""

from hypothesis import strategies as st

from tests.core.model import MAX_TICK

# Distances around the edges of every level, and around twice that: a slot of the next turn.
EDGES = sorted({0, *(times * 256**k + near for k in range(8) for times in (1, 2, 255) for near in (-1, 0, 1))})
DISTANCES = st.one_of(st.integers(0, 3), st.integers(0, 600), st.sampled_from(EDGES), st.integers(0, MAX_TICK))


@st.composite
def later(draw, now):
    """A tick at or after `now`: near it, at the edge of a level, at the start of a slot, or near the last one."""
    kind = draw(st.integers(0, 5))
    if kind == 0:
        size = 256 ** draw(st.integers(1, 7))
        tick = (now // size + draw(st.integers(1, 3))) * size + draw(st.integers(-1, 1))
    elif kind == 1:
        tick = MAX_TICK - draw(st.integers(0, 300))
    elif kind == 2:
        tick = now + draw(DISTANCES)
    else:  # near, so that timers share ticks
        tick = now + draw(st.integers(0, 4))
    return min(max(tick, now), MAX_TICK)


@st.composite
def deadlines(draw, now):
    """A deadline for a wheel at `now`; one in six is past."""
    if draw(st.integers(0, 5)) == 0:
        return max(0, now - draw(DISTANCES))
    return draw(later(now))


STARTS = st.one_of(
    st.just(0),
    st.integers(0, 70_000),
    st.sampled_from([2**k - d for k in (16, 24, 31, 32, 40, 48, 56, 62, 63) for d in (1, 2, 256)]),
    st.integers(0, MAX_TICK),
)
LIMITS = st.one_of(st.none(), st.integers(0, 4))
KEYS = st.one_of(st.integers(0, 5), st.integers(0, 2**64 - 1), st.sampled_from([2**63 - 1, 2**63, 2**64 - 1]))
