# The compiler doesn't see .incbin.
$(BUILD)/obj/core/interp_text.o: share/interpreter/runner.py
