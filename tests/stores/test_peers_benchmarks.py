"""The program that measures queues beside each other runs, with a few jobs. Its results are not tested."""

from benchmarks.queues.catalogue import PEERS


def test_a_handler_has_as_many_places_in_every_queue():
    places = {handler: {} for handler in ("nothing", "sleep10", "computes")}
    for peer in PEERS:
        for handler, sizes in places.items():
            processes, concurrency = peer.size(handler)
            sizes.setdefault(peer.kind, set()).add(processes * concurrency)
    assert places["sleep10"] == {"threads": {64}, "serial": {8}, "forks": {8}}
    assert places["computes"] == {"threads": {16}, "serial": {2}, "forks": {2}}
