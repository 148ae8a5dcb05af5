# Root file systems: the default image and the tests' tiny one.
.PHONY: image testroot
image: ## make build/image/default.tar.zst (cached by recipe)
	@tools/mkimage

testroot: build/image/busybox.tar ## make the tests' tiny root file system

build/image/busybox.tar: tools/mktestroot
	@tools/mktestroot
