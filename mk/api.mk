# The compiler doesn't see .incbin, so the programs in it are named here.
$(BUILD)/obj/api/daytona/code_drivers.o: src/api/daytona/driver.py src/api/daytona/driver.js
