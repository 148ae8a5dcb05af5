# Box tests on Debian's kernel with pure cgroup v2 (outside CI: needs QEMU).
.PHONY: check-vm
check-vm: all box-build testroot ## run the box tests in a virtual machine with Debian's 6.1 kernel
	@tools/install-deps vm
	tools/checkvm
