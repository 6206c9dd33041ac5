"""The formats of a report of findings: one file each, under the name that ``--format`` takes.

A module has ``render(report, colour, width)``, which gives the whole text; what is not for people looks at neither
colour nor width (``None``: lines may be as long as they are).
"""
