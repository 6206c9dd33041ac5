"""What differs between plans (``compare``), on several platforms (``comparison``), and revisions (``gitdiff``)."""
