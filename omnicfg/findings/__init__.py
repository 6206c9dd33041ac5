"""What becomes of findings between the rules that make them and the report that tells them.

A team's settings (``configuration`` reads them, ``settings`` holds them), comments that keep a finding quiet
(``suppressions``) and findings that were there before (``baseline``, by ``fingerprints``), applied by ``review``.
"""
