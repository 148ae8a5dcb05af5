# The nft tables are built into the program (.incbin), which the compiler's dependency files miss.
$(BUILD)/obj/box/net_nft.o: share/caisson.nft share/caisson-uplink.nft
