"""The series that tell of the guard and its flag."""

from specgauge.model.series_name import TARGET, SeriesName, counter, gauge

GUARD_STATE = gauge("guard_state", (TARGET, "state"), "1 for where the guard stands, else 0.")
FLAG_DESIRED = gauge(
    "guard_flag_desired", (TARGET,), "1 if the guard wants speculation on, 0 if off."
)
FLAG_CONFIRMED = gauge(
    "guard_flag_confirmed", (TARGET,), "1 if the flag was last read back as on, 0 if as off."
)
TRANSITIONS = counter(
    "guard_transitions", (TARGET, "from", "to", "reason"), "Changes of the guard's state."
)
ASSESSMENTS = counter(
    "guard_assessments", (TARGET, "outcome"), "Looks at the evidence by what they said."
)
FLAG_WRITES = counter(
    "guard_flag_writes", (TARGET, "result"), "Attempts to write the flag by how they ended."
)
WARNINGS = counter(
    "guard_warnings",
    (TARGET, "reason"),
    "Fallbacks that did not help, and looks at a loss that the guard may not act on, by reason.",
)
STATE_SINCE = gauge(
    "guard_state_since_timestamp_seconds", (TARGET,), "Unix time since which the state holds."
)
NEXT_PROBE = gauge(
    "guard_next_probe_timestamp_seconds", (TARGET,), "Unix time at which the next probe is due."
)
OVERRIDE = gauge("guard_override", (TARGET,), "1 while an operator has overridden the guard.")

GUARD: tuple[SeriesName, ...] = (
    GUARD_STATE,
    FLAG_DESIRED,
    FLAG_CONFIRMED,
    TRANSITIONS,
    ASSESSMENTS,
    FLAG_WRITES,
    WARNINGS,
    STATE_SINCE,
    NEXT_PROBE,
    OVERRIDE,
)
