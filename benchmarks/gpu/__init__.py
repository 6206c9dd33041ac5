"""The measurements and checks that need NVIDIA GPUs, in parts that go on where they were cut off."""
