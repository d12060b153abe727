"""What the clients' checks have in common."""


class Checks:
    """Counts what holds and says what doesn't."""

    def __init__(self, name):
        self.name, self.passed, self.failed = name, 0, 0

    def equal(self, what, got, want):
        if got == want:
            self.passed += 1
        else:
            self.failed += 1
            print(f"  {self.name}: {what}: got {got!r}, want {want!r}")

    def finish(self):
        print(f"{self.name}: {self.passed} passed, {self.failed} failed")
        return self.failed
