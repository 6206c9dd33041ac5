"""The compiler's passes, one module each.

read → interpolate → inherit → deploy → platform → override → topology (with pipeline) → engine args → effective
"""
