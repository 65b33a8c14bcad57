"""Rules that changed at a start: up to which micro-batch the old ones hold."""

from sessionization.core.session_state import Rules, RulesInForce

ON, OFF = Rules(inactivity_timeout_ms=60_000), Rules()


def test_a_repeated_micro_batch_has_its_old_rules_and_later_ones_the_new() -> None:
    in_force = RulesInForce(ON).change_to(OFF, 10)
    assert [in_force.at(now_ms) for now_ms in (9, 10, 11)] == [ON, ON, OFF]
    assert in_force.change_to(OFF, 10) == in_force
    assert RulesInForce(ON).change_to(OFF, None) == RulesInForce(OFF)


def test_activities_are_parsed_until_a_start_that_repeats_no_micro_batch_of_the_old_rules() -> None:
    in_force = RulesInForce(ON).change_to(OFF, 10)
    assert in_force.change_to(OFF, 10).has_activity
    assert not in_force.change_to(OFF, 11).has_activity
    assert RulesInForce(OFF).change_to(ON, 10).change_to(ON, 11) == RulesInForce(ON)
