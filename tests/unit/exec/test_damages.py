"""The table of damages: each kind of file removed, truncated or changed, now and in the past. See docs/user/damage.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph.exec.adjacency.cache import ENVIRONMENT as CACHE_ENVIRONMENT
from omnigraph.store.root import FSYNC_ENVIRONMENT
from tests.damages import EXPECTED, FILES, WRONG, Harm, When, World, build, examine, sound_answers
from tests.samples import is_whole, sample

FLIPS = sample(1, whole=24)
HARMS = list(Harm)
ROWS = [(key, when) for key, item in FILES.items() for when in item.whens]
CELLS = [(*row, harm) for at, row in enumerate(ROWS) for n, harm in enumerate(HARMS) if is_whole() or (at + n) % 3 == 0]
"""All of them, or one for each kind of file and time, each kind of harm in a third."""


class Sound(dict[When, dict[str, object]]):
    """What the questions get from the sound graph."""

    world: World


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sound]:
    folder = tmp_path_factory.mktemp("damages")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FSYNC_ENVIRONMENT, "off")
        patch.setenv(CACHE_ENVIRONMENT, str(folder / "cache"))
        world = build(folder)
        found = Sound({When.TIP: sound_answers(world.uri, None), When.PAST: sound_answers(world.uri, world.past)})
        found.world = world
        yield found


def test_the_table_has_every_cell() -> None:
    assert list(EXPECTED) == [(key, when, harm) for harm in HARMS for key, when in ROWS]


@pytest.mark.parametrize(("key", "when", "harm"), CELLS)
def test_damage(sound: Sound, tmp_path: Path, key: str, when: When, harm: Harm) -> None:
    """X-16: A damaged file never gives a wrong answer, and never a foreign exception.

    What is not flipped is exact: each read is right or an error of ours, `verify` and `repair` say what the table says.
    """
    expected = EXPECTED[key, when, harm]
    for found in examine(sound.world, sound, FILES[key], when, harm, tmp_path, flips=FLIPS):
        assert WRONG not in found.reads
        if harm is Harm.FLIPPED:
            for said, allowed in zip(found, expected, strict=True):
                assert said <= allowed
        else:
            assert found == expected
