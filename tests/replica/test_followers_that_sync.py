"""`flush.messages` is kept by followers as by leaders."""

from tests.replica.exchange import Replica, state
from tests.replica.test_truncation_by_epoch import play

from barnabas.config.topic_config import TopicConfig
from barnabas.sim.loop import SimLoop


def test_a_follower_syncs_after_as_many_records_as_its_leader() -> None:
    async def scene(loop: SimLoop) -> None:
        config, begin = TopicConfig(flush_messages=3), state(1, 0, (1, 2))
        a, b = Replica(loop, 1, begin, config), Replica(loop, 2, begin, config)
        for number in range(2):
            a.append(b"%d" % number)
        await b.copy_from(a)
        assert b.work.waiting == []
        a.append(b"2")
        await b.copy_from(a)
        assert len(b.work.waiting) == 1
        await b.work.finish()
        assert b.log.recovery_point == 3
        a.append(b"3")
        await b.copy_from(a)
        assert b.work.waiting == []

    play(scene)


def test_what_was_copied_before_something_went_wrong_counts() -> None:
    async def scene(loop: SimLoop) -> None:
        config, begin = TopicConfig(flush_messages=2), state(1, 0, (1, 2))
        a, b = Replica(loop, 1, begin, config), Replica(loop, 2, begin, config)
        for number in range(3):
            a.append(b"%d" % number)
        result = await a.answer(b, b.question())
        damaged = bytearray(result.records or b"")
        damaged[-1] ^= 1
        epoch = b.partition.leader_epoch
        assert not b.copier.take(b.partition, epoch, result._replace(records=bytes(damaged)))
        assert b.log.end_offset == 2
        assert len(b.work.waiting) == 1

    play(scene)
