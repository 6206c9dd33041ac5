"""Measuring what a setting of a plan costs and gives: loads, arms, servers, measurements, reports."""
