"""`pywheel verify`: one line for each defect, and the result of a repair."""

import json
import sqlite3


def damage(queue, *statements):
    connection = sqlite3.connect(queue.store.path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def test_a_sound_store_is_said_to_be_one(call, queue):
    queue.put("t")
    assert call("verify") == (0, "nothing is wrong\n", "")
    assert call("verify", "--repair") == (0, "nothing is wrong\n", "")
    assert call("verify", "--json") == (0, "[]\n", "")


def test_what_is_wrong_is_told_with_what_a_repair_does_and_is_gone_after_it(call, queue):
    queue.put_many([queue.job("t") for _ in range(1_200)])
    damage(queue, "UPDATE counts SET live = 7", "UPDATE job SET state = 9 WHERE id <= 1100")
    code, out, err = call("verify")
    title, states, counts = [line.split("\t") for line in out.splitlines()]
    assert (code, "pywheel verify --repair" in err) == (1, True)
    assert title == ["how many", "what", "such as", "--repair"]
    assert states[:3] == ["1,100", "jobs that are neither delayed, running nor finished", "1 2 3 4 5"]
    assert states[3] == "they are delayed again, with all their attempts, due at once"
    assert counts == ["1", "topics whose jobs are counted wrongly", "t", "they are counted anew"]
    code, out, err = call("verify", "--repair")
    assert (code, err) == (0, "")
    assert out.splitlines()[1].split("\t")[3] == "delayed again, with all their attempts, due at once"
    assert call("verify")[0] == 0
    assert queue.topics.counts()["t"].delayed == 1_200


def test_what_cannot_be_repaired_is_left_and_said(call, queue):
    queue.put("t")
    damage(queue, "INSERT INTO counts VALUES (1, 7, 0, 0, 0)", "UPDATE job SET topic = 99")
    code, out, err = call("verify", "--repair", "--json")
    assert code == 1
    assert [(finding["what"], finding["repaired"]) for finding in json.loads(out)] == [
        ("jobs of a topic that is not there", False),
        ("topics whose jobs are counted wrongly", True),
    ]
    assert "restore a backup" in err
    assert call("verify")[0] == 1
