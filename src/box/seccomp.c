/*
 * seccomp.c - see seccomp.h. A small assembler: call numbers become runs of equal action, runs
 * become a binary tree, and the few calls with checked arguments jump to blocks behind it.
 */
#include "box/seccomp.h"

#include <asm/ioctls.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#define SECCOMP_NR_MAX 512
#define X32_BIT	       0x40000000u
#define CLONE_TIME_BIT 0x80u /* CLONE_NEWTIME; in clone() the bit is part of the exit signal */

#define NEW_NAMESPACES                                                                             \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |             \
	 CLONE_NEWPID | CLONE_NEWNET)

#if defined(__x86_64__)
#define SECCOMP_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define SECCOMP_ARCH AUDIT_ARCH_AARCH64
#endif

#define RET_ERRNO(e) (SECCOMP_RET_ERRNO | (e))
#define ARG_LOW(i)   (offsetof(struct seccomp_data, args) + 8 * (i)) /* little-endian */

struct asm_state {
	struct sock_filter *insn;
	size_t n;
	bool full;
	uint8_t act[SECCOMP_NR_MAX];
	size_t run[SECCOMP_NR_MAX]; /* first number of each run of equal action */
	size_t nruns;
	size_t jump[SECCOMP_NR_MAX]; /* instructions to patch, with the action they jump to */
	uint8_t jump_act[SECCOMP_NR_MAX];
	size_t njumps;
	size_t block[ACT_MAX];
};

static void emit(struct asm_state *a, uint16_t code, uint32_t k, size_t jt, size_t jf)
{
	if (a->n >= SECCOMP_INSNS_MAX || jt > 255 || jf > 255) {
		a->full = true;
		return;
	}
	a->insn[a->n++] = (struct sock_filter){code, (uint8_t)jt, (uint8_t)jf, k};
}

static void emit_ret(struct asm_state *a, uint32_t value)
{
	emit(a, BPF_RET | BPF_K, value, 0, 0);
}

static void emit_load(struct asm_state *a, size_t offset)
{
	emit(a, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

/* If the accumulator equals k return value, else go on. */
static void emit_case(struct asm_state *a, uint32_t k, uint32_t value)
{
	emit(a, BPF_JMP | BPF_JEQ | BPF_K, k, 0, 1);
	emit_ret(a, value);
}

static void emit_leaf(struct asm_state *a, uint8_t act)
{
	switch (act) {
	case ACT_ALLOW:
		emit_ret(a, SECCOMP_RET_ALLOW);
		return;
	case ACT_EPERM:
		emit_ret(a, RET_ERRNO(EPERM));
		return;
	case ACT_ENOSYS:
		emit_ret(a, RET_ERRNO(ENOSYS));
		return;
	default:
		a->jump[a->njumps] = a->n;
		a->jump_act[a->njumps++] = act;
		emit(a, BPF_JMP | BPF_JA, 0, 0, 0);
	}
}

/* Runs [lo, hi): halves until one is left. Depth is log2 of the number of runs. */
static void emit_tree(struct asm_state *a, size_t lo, size_t hi)
{
	size_t mid = lo + (hi - lo) / 2, at = a->n;

	if (hi - lo == 1) {
		emit_leaf(a, a->act[a->run[lo]]);
		return;
	}
	emit(a, BPF_JMP | BPF_JGE | BPF_K, (uint32_t)a->run[mid], 0, 0);
	emit_tree(a, lo, mid);
	if (a->n - at - 1 > 255)
		a->full = true;
	else
		a->insn[at].jt = (uint8_t)(a->n - at - 1);
	emit_tree(a, mid, hi);
}

static void block_mask(struct asm_state *a, uint32_t mask)
{
	emit_load(a, ARG_LOW(0));
	emit(a, BPF_ALU | BPF_AND | BPF_K, mask, 0, 0);
	emit_case(a, 0, SECCOMP_RET_ALLOW);
	emit_ret(a, RET_ERRNO(EPERM));
}

/* Families the kernel would load code for are refused; so are raw sockets and odd protocols. */
static void block_socket(struct asm_state *a)
{
	static const uint32_t protocol[] = {0,	/* the type's own */
					    1,	/* ICMP, unprivileged ping */
					    6,	/* TCP */
					    17, /* UDP */
					    58, /* ICMPv6 */
					    262 /* MPTCP */};

	emit_load(a, ARG_LOW(0));
	emit_case(a, AF_UNIX, SECCOMP_RET_ALLOW);
	emit(a, BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 3, 0);
	emit(a, BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 6, 0);
	emit(a, BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 5, 0);
	emit_ret(a, RET_ERRNO(EAFNOSUPPORT));
	emit_load(a, ARG_LOW(2)); /* netlink: ROUTE alone, which getaddrinfo asks */
	emit_case(a, 0, SECCOMP_RET_ALLOW);
	emit_ret(a, RET_ERRNO(EPROTONOSUPPORT));
	emit_load(a, ARG_LOW(1));
	emit(a, BPF_ALU | BPF_AND | BPF_K, 0xf, 0, 0);
	emit(a, BPF_JMP | BPF_JEQ | BPF_K, SOCK_STREAM, 2, 0);
	emit(a, BPF_JMP | BPF_JEQ | BPF_K, SOCK_DGRAM, 1, 0);
	emit_ret(a, RET_ERRNO(EPERM));
	emit_load(a, ARG_LOW(2));
	for (size_t i = 0; i < ARRAY_LEN(protocol); i++)
		emit_case(a, protocol[i], SECCOMP_RET_ALLOW);
	emit_ret(a, RET_ERRNO(EPROTONOSUPPORT));
}

static void block_socketpair(struct asm_state *a)
{
	emit_load(a, ARG_LOW(0));
	emit_case(a, AF_UNIX, SECCOMP_RET_ALLOW);
	emit_ret(a, RET_ERRNO(EAFNOSUPPORT));
}

/* The kernel looks at 32 bits of the request; so does this, whatever the upper half holds. */
static void block_ioctl(struct asm_state *a)
{
	emit_load(a, ARG_LOW(1));
	emit_case(a, TIOCSTI, RET_ERRNO(EPERM));
	emit_case(a, TIOCLINUX, RET_ERRNO(EPERM));
	emit_case(a, TIOCSETD, RET_ERRNO(EPERM)); /* loads line disciplines (CVE-2023-6546) */
	emit_ret(a, SECCOMP_RET_ALLOW);
}

static void block_personality(struct asm_state *a)
{
	static const uint32_t value[] = {0, 0x8, 0x20000, 0x20008, 0x40000, 0xffffffff};

	emit_load(a, ARG_LOW(0));
	for (size_t i = 0; i < ARRAY_LEN(value); i++)
		emit_case(a, value[i], SECCOMP_RET_ALLOW);
	emit_ret(a, RET_ERRNO(EPERM));
}

static void emit_blocks(struct asm_state *a, bool nest)
{
	a->block[ACT_CLONE] = a->n;
	block_mask(a, nest ? 0 : (uint32_t)NEW_NAMESPACES);
	a->block[ACT_UNSHARE] = a->n;
	block_mask(a, nest ? 0 : (uint32_t)NEW_NAMESPACES | CLONE_TIME_BIT);
	a->block[ACT_SOCKET] = a->n;
	block_socket(a);
	a->block[ACT_SOCKETPAIR] = a->n;
	block_socketpair(a);
	a->block[ACT_IOCTL] = a->n;
	block_ioctl(a);
	a->block[ACT_PERSONALITY] = a->n;
	block_personality(a);
	for (size_t i = 0; i < a->njumps; i++)
		a->insn[a->jump[i]].k = (uint32_t)(a->block[a->jump_act[i]] - a->jump[i] - 1);
}

static void act_set(struct asm_state *a, enum seccomp_act act, const char *const *name)
{
	for (; *name; name++) {
		int nr = seccomp_syscall_resolve_name(*name);

		if (nr >= 0 && nr < SECCOMP_NR_MAX)
			a->act[nr] = (uint8_t)act;
	}
}

int seccomp_build(struct seccomp_filter *f, bool nest, struct err *err)
{
	struct asm_state a = {.insn = f->insn};

	for (const struct seccomp_row *r = seccomp_rows; r->name; r++)
		act_set(&a, r->act, r->name);
	if (nest)
		act_set(&a, ACT_ALLOW, seccomp_nest_names);
	for (size_t nr = 0; nr < SECCOMP_NR_MAX; nr++) {
		if (nr == 0 || a.act[nr] != a.act[nr - 1])
			a.run[a.nruns++] = nr;
	}
	/* Foreign architectures first: their numbers mean other calls. */
	emit_load(&a, offsetof(struct seccomp_data, arch));
	emit(&a, BPF_JMP | BPF_JEQ | BPF_K, SECCOMP_ARCH, 1, 0);
	emit_ret(&a, RET_ERRNO(ENOSYS));
	emit_load(&a, offsetof(struct seccomp_data, nr));
	emit(&a, BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1);
	emit_ret(&a, RET_ERRNO(ENOSYS));
	emit_tree(&a, 0, a.nruns);
	emit_blocks(&a, nest);
	if (a.full)
		return err_set(err, ERR_INTERNAL, "the system call filter is too long");
	f->prog = (struct sock_fprog){.len = (unsigned short)a.n, .filter = f->insn};
	return 0;
}
