# Box tests on Debian's kernel with pure cgroup v2 (outside CI: needs QEMU).
.PHONY: check-vm
check-vm: all box-build testroot ## box tests and a real systemd in a machine with Debian's 6.1 kernel
	@tools/install-deps vm
	tools/checkvm
	tools/checkvm --systemd

.PHONY: check-bare
check-bare: ## the README on a bare Debian root: packages, build, unit tests (root)
	@tools/install-deps vm
	tools/checkbare
