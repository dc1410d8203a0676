def pytest_terminal_summary(terminalreporter):
    """Say how long it took to find each fault, the longest last."""
    stats = terminalreporter.stats
    found = [value for report in stats.get("passed", ()) for kind, value in report.user_properties if kind == "found"]
    if found:
        terminalreporter.section("seconds until a planted fault was found")
        for name, seconds, test in sorted(found, key=lambda one: one[1]):
            terminalreporter.line(f"{seconds:6.1f}  {name}  ({test.partition('::')[2]})")
        terminalreporter.line(f"{len(found)} faults")
