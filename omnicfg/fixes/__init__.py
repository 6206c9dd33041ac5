"""Mending findings: which edits a finding brings (``edits``), and trying and writing them (``fix``)."""
