"""The rules: one file each, found by the registry.

A rule's module holds ``RULE`` (its documentation) and one or more checks, each a generator of findings:

``check_document(document, subject)``
    a file of the chain as it was written: the profile, a base, an overlay;
``check_profile(subject)``
    the merged profile before a platform is chosen;
``check_plan(plan, subject)``
    the plan on one platform;
``check_suppression(judged)``
    a comment that suppresses findings, once these are known.
"""
