"""usage: check.py RULE ROOT: prints the findings of one rule in a tree; exits with 1 if there are any."""

import sys
from pathlib import Path

from rules import RULES


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in RULES:
        sys.exit(f"{__doc__}\nrules: {', '.join(RULES)}")
    findings = RULES[sys.argv[1]](Path(sys.argv[2]).resolve())
    print("\n".join(findings) or "nothing found")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
