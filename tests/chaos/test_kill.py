"""A killed broker loses nothing it acknowledged, and stores nothing twice. (See kill_run.)"""

from pathlib import Path

from tests.chaos import talk
from tests.chaos.kill_run import run, summary
from tests.chaos.lives import Lives
from tests.chaos.topic_maker import TopicMaker, check_topics

_KILLS = 3
_SEED = 20
_LASTS_S = (0.3, 1.0)


def _verdict(lives: Lives) -> str:
    return f"seed {lives.seed}, data in {lives.home}\n{summary(lives)}"


def test_kills_in_mid_load(tmp_path: Path) -> None:
    """In two runs, the second of which takes up the data and the counts of the first."""
    first = run(_KILLS - 1, _SEED, tmp_path, _LASTS_S)
    assert not first.problems, _verdict(first)
    lives = run(_KILLS, _SEED, tmp_path, _LASTS_S)
    assert not lives.problems, _verdict(lives)
    assert len(lives.lives) == _KILLS
    assert lives.acknowledged > first.acknowledged > 1000, _verdict(lives)
    assert lives.seen > 1000, _verdict(lives)
    assert lives.repeated > 0, _verdict(lives)


def test_a_clean_stop_in_mid_load_and_kills_in_mid_recovery(tmp_path: Path) -> None:
    lives = Lives(tmp_path, _SEED)
    try:
        lives.open({})
        lives.work_for(0.5, 1.0)
        _stop_cleanly(lives)
        lives.work_for(0.5, 1.0)
        lives.end_load()
        _kill_recoveries(lives)
    finally:
        lives.close()
    assert not lives.problems, _verdict(lives)
    assert lives.acknowledged > 100, _verdict(lives)


def _alarms(lives: Lives) -> list[str]:
    """What the broker's log says that is not for information only."""
    return [line for line in lives.broker.log_text().splitlines() if " INFO " not in line]


def _stop_cleanly(lives: Lives) -> None:
    """The stop is clean: the next start has nothing to mend, and begins no new epochs."""
    with lives.broker.link() as link:
        before = talk.leader_epochs(link)
    assert lives.broker.terminate() == 0
    assert _alarms(lives) == []
    lives.revive(0.0)
    with lives.broker.link() as link:
        now = talk.leader_epochs(link)
    assert all(now[place] == before[place] for place in lives.places())
    assert _alarms(lives) == []


def _kill_recoveries(lives: Lives) -> None:
    """A recovery that is killed, at any moment, leaves logs that recover."""
    lives.broker.kill()
    start_s = lives.revive(0.0).start_ms / 1000
    for _ in range(3):
        lives.broker.kill()
        lives.broker.spawn()
        lives.work_for(start_s * 0.4, start_s * 1.1)
    lives.broker.kill()
    lives.revive(0.0)


def test_kills_while_topics_come_and_go(tmp_path: Path) -> None:
    lives = Lives(tmp_path, _SEED)
    broker = lives.broker
    maker = TopicMaker(
        "churn", lives.journal, ("127.0.0.1", broker.port), pause_s=0.0, keep_one_of=4
    )
    problems: list[str] = []
    try:
        broker.start()
        maker.start()
        for _ in range(3):
            lives.work_for(0.3, 0.7)
            broker.kill()
            promised, gone = maker.facts()
            broker.start()
            with broker.link() as link:
                problems += check_topics(link, promised, gone)
                for name in promised:
                    talk.produce(link, (name, 1), talk.batch_of(b"still served"))
        maker.end()
        promised, gone = maker.facts()
    finally:
        lives.close()
    assert not problems + lives.journal.problems, f"seed {lives.seed}, data in {tmp_path}"
    assert len(promised) > 3
    assert len(gone) > 3
