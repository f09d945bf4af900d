"""Where the time of a run went."""

from airflow_delta_provider.engine.profile import Stopwatch, profile_lines


def test_laps_and_shards_add_up_to_whole_milliseconds():
    """The sidecar is canonical JSON and holds no floats; workers' times are added, since they ran side by side."""
    times = iter([1.0, 1.5, 4.0, 4.25])
    watch = Stopwatch(lambda: next(times))
    watch.lap("open")
    watch.lap("shards")
    watch.add([{"read_ms": 40, "compare_ms": 2, "encode_ms": 1}, {"read_ms": 60, "compare_ms": 5}])
    watch.lap("store")
    assert watch.form() == {"open": 500, "shards": 2500, "read": 100, "compare": 7, "encode": 1, "store": 250}


def test_pieces_stand_under_their_part():
    """Pieces are of several workers and may be more than the part they are of."""
    assert profile_lines({"shards": 2500, "read": 100}) == ["shards       2500 ms", "  read        100 ms"]
