/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * wire.h: the only file that the BPF programs and user space share.
 *
 * It fixes the records that travel through the ring buffer (and, byte for byte, through a capture
 * file), the configuration values that user space writes into maps, and the counters. All times are
 * nanoseconds of CLOCK_MONOTONIC. All records start with struct wire_header and are a multiple of 8
 * bytes; readers must check header.size against what the record says of its own variable parts.
 *
 * Invariant: a record never holds a kernel pointer, and every give-up has an enum wire_counter.
 */
#ifndef SPANPROF_WIRE_H
#define SPANPROF_WIRE_H

#ifndef __bpf__
#include <linux/types.h>
#endif

#define WIRE_VERSION 3

#define WIRE_COMM_MAX     16  /* bytes of a thread name, NUL included */
#define WIRE_NAME_MAX     256 /* bytes of captured name fields of one span */
#define WIRE_OPS_MAX      48  /* operations of one name expression */
#define WIRE_VALS_MAX     4   /* values saved at entry for use at leave */
#define WIRE_SPANS_MAX    32  /* open spans of one thread that are told apart */
#define WIRE_NAMED_MAX    8  /* of those, the outermost ones that keep a name and may be profiled */
#define WIRE_KSTACK_MAX   32 /* kernel frames of one snapshot */
#define WIRE_EP_MAX       64 /* endpoint slots */
#define WIRE_WINDOW_MAX   65536        /* hard limit of one window; the limit in force is a knob */
#define WIRE_PAGE         4096         /* of x86-64: the unit of wire_snapshot.holes */
#define WIRE_REDZONE      128          /* x86-64 psABI 3.2.2: bytes below SP that are still live */
#define WIRE_STACK_SPREAD (8ULL << 20) /* SPs further apart than this are on different stacks */

/* DWARF register numbers of x86-64 (System V psABI, figure 3.36): the order of wire_regs.r[]. */
enum wire_reg {
	WIRE_REG_RAX,
	WIRE_REG_RDX,
	WIRE_REG_RCX,
	WIRE_REG_RBX,
	WIRE_REG_RSI,
	WIRE_REG_RDI,
	WIRE_REG_RBP,
	WIRE_REG_RSP,
	WIRE_REG_R8,
	WIRE_REG_R9,
	WIRE_REG_R10,
	WIRE_REG_R11,
	WIRE_REG_R12,
	WIRE_REG_R13,
	WIRE_REG_R14,
	WIRE_REG_R15,
	WIRE_REG_RIP,
	WIRE_REG_MAX
};

struct wire_regs {
	__u64 r[WIRE_REG_MAX];
};

enum wire_kind {
	WIRE_K_PROMOTED = 1, /* a span became PROFILING: struct wire_promoted */
	WIRE_K_SNAPSHOT,     /* struct wire_snapshot */
	WIRE_K_END,          /* a PROFILING span ended: struct wire_end */
	WIRE_K_RETSITE, /* a call site of an endpoint that is not known yet: struct wire_retsite */
	WIRE_K_FORK,    /* a member forked: struct wire_proc */
	WIRE_K_EXEC, /* a member, or a process of a watched file, called exec: struct wire_proc */
	WIRE_K_EXIT, /* the last thread of a member is gone: struct wire_proc */
	WIRE_K_SLOW, /* a slow span that was not profiled ended: struct wire_end */
	WIRE_K_CUT, /* by user space: all open spans are given up, the probes rest: a header alone */
	WIRE_K_MAX
};

struct wire_header {
	__u32 size; /* bytes of the whole record, header included, multiple of 8 */
	__u16 kind; /* enum wire_kind */
	__u16 cpu;
	__u64 mono_ns;
	__u32 tgid; /* of the thread the record is about, in the initial PID namespace */
	__u32 tid;
};
_Static_assert(sizeof(struct wire_header) == 24, "wire_header");

/*
 * Cumulative wall time of one thread since it was first seen, ns. The difference of two of these is
 * an exact split: on CPU + run queue + blocked = elapsed time.
 */
struct wire_wall {
	__u64 oncpu_ns;
	__u64 runq_ns;
	__u64 blocked_ns;
};

/*
 * Sent once when a span passes its threshold. `start` is the thread's wall clock at span entry;
 * `promoted` the same at the point from which the snapshots account for the time (for a span that
 * passes its threshold while blocked: the switch-out). name: captured fields, see wire_op.
 */
struct wire_promoted {
	struct wire_header h;
	__u64 span_id; /* unique while the BPF programs are loaded, never 0 */
	__u64 start_ns;
	__u64 promoted_ns;
	__u64 entry_sp; /* SP at the function's first instruction: *(entry_sp) is the return address */
	__u64 entry_ip; /* run-time address of the endpoint function's first byte */
	__u64 ret_addr; /* 0: an end function ends the call, whose frame may be gone */
	__u32 ep_id;
	__u32 instance_id;
	__u32 as_id; /* address space: see wire_member */
	__u32 name_bytes;
	struct wire_wall start;
	struct wire_wall promoted;
	char comm[WIRE_COMM_MAX];
	__u8 name[WIRE_NAME_MAX];
};
_Static_assert(sizeof(struct wire_promoted) == 24 + 48 + 16 + 48 + 16 + 256, "wire_promoted");

enum wire_snapshot_kind {
	WIRE_SNAP_ONCPU = 1, /* a tick found the thread running */
	WIRE_SNAP_OFFCPU,    /* an interval off CPU that is over */
	WIRE_SNAP_STUCK,     /* still off CPU: a walk of the open spans found it */
};

enum wire_snapshot_flag {
	WIRE_SNAP_F_KERNEL = 1 << 0,    /* on CPU: the tick was taken in kernel mode */
	WIRE_SNAP_F_TRUNCATED = 1 << 1, /* the window is larger than the limit in force */
	WIRE_SNAP_F_FAULT = 1 << 2,     /* nothing of the window could be read; window_bytes is 0 */
	WIRE_SNAP_F_FOREIGN = 1 << 3,   /* SP is not on the stack of the span; window_bytes is 0 */
	WIRE_SNAP_F_PREEMPTED = 1 << 4, /* off CPU although runnable */
	WIRE_SNAP_F_WAKER = 1 << 5,     /* waker_tgid and waker_tid are valid */
	WIRE_SNAP_F_IOWAIT = 1 << 6,    /* the kernel counts the block as I/O wait */
};

/* One PROFILING span that a snapshot belongs to. */
struct wire_snap_span {
	__u64 span_id;
	__u64 entry_sp;
	__u64 ret_addr;
	__u32 seq;   /* 0, 1, 2 ... of this span; a gap is a lost snapshot */
	__u32 flags; /* enum wire_span_flag */
};
enum wire_span_flag {
	/*
	 * It ends by an end function and its begin function has returned, so there is no frame of it:
	 * its stack ends with the frame that encloses entry_sp.
	 */
	WIRE_SPAN_F_NO_FRAME = 1 << 0,
};
_Static_assert(sizeof(struct wire_snap_span) == 32, "wire_snap_span");

/*
 * One look at a thread. Followed by kernel_frames __u64 (leaf first, kernel addresses only when
 * user space asked for them) and then window_bytes bytes (a multiple of 8) of the user stack. The
 * window's first byte is always at address regs.r[RSP] - WIRE_REDZONE; it reaches up to and
 * including the return address slot of the outermost span in spans[] that is on the same stack, or
 * as far as the limit in force lets it (F_TRUNCATED).
 *
 * Pages that cannot be read without a fault, such as those of a large buffer that nobody has touched
 * yet, are left out: `holes` has a bit for each, bit 0 for the page of the window's first byte. Their
 * bytes in the window are zero and say nothing.
 */
struct wire_snapshot {
	struct wire_header
		h;       /* mono_ns: the tick, or the switch-in (off CPU), or the walk (stuck) */
	__u16 snap_kind; /* enum wire_snapshot_kind */
	__u16 flags;     /* enum wire_snapshot_flag */
	__u16 n_spans;   /* 1..WIRE_NAMED_MAX, outermost first */
	__u16 kernel_frames;
	__u32 window_bytes;
	__u32 as_id;
	__u32 holes; /* bit per WIRE_PAGE of addresses: not in the window */
	__u32 pad;
	struct wire_wall wall; /* of the thread, at h.mono_ns (stuck: at out_ns) */
	__u64 out_ns;          /* off CPU, stuck: the switch-out */
	__u64 wake_ns; /* off CPU: the wake-up, 0 when it was not seen or was never blocked */
	__u32 waker_tgid;
	__u32 waker_tid;
	__s32 syscall_nr; /* off CPU, stuck: -1 when not in a system call */
	__u32 prev_state; /* off CPU, stuck: task state at switch-out, & 0xff (include/linux/sched.h) */
	struct wire_regs regs;
	struct wire_snap_span spans[WIRE_NAMED_MAX];
	/* __u64 kernel[kernel_frames]; __u8 window[window_bytes]; */
};
_Static_assert(sizeof(struct wire_snapshot) == 24 + 24 + 24 + 16 + 16 + 136 + 256, "wire_snapshot");

/*
 * A CPU's own ring for the snapshots of its ticks, in the map `tick_rings`: to write there takes no
 * lock and waits for no other CPU. `written` and `taken` are bytes since the start, multiples of 8. A
 * record is in one piece: one that begins before the end of the ring goes on behind it. Larger windows
 * than WIRE_TICK_WINDOW, and all when it is full, go into the common ring.
 */
#define WIRE_TICK_RING   65536
#define WIRE_TICK_WINDOW 16384
#define WIRE_TICK_RECORD \
	(sizeof(struct wire_snapshot) + WIRE_KSTACK_MAX * sizeof(__u64) + WIRE_TICK_WINDOW)
struct wire_tick_ring {
	__u64 written; /* by BPF, after the record */
	__u64 seen;    /* by BPF: `taken` when it was last looked at */
	__u64 pad[6];  /* the two sides write to different cache lines */
	__u64 taken;   /* by user space */
	__u64 pad2[7];
	__u8 data[WIRE_TICK_RING + WIRE_TICK_RECORD];
};
_Static_assert(sizeof(struct wire_tick_ring) % 8 == 0, "the stride of the map");

enum wire_end_reason {
	WIRE_END_RETURN = 1,   /* the leave probe: the call returned */
	WIRE_END_END_PROBE,    /* the declared end function was entered */
	WIRE_END_UNWOUND,      /* longjmp or exception: SP was seen above the stored SP */
	WIRE_END_LEAVE_UNSEEN, /* its return site was not known in time; the end is not known */
	WIRE_END_THREAD_EXIT,
	WIRE_END_PROCESS_EXIT, /* exit or killed */
	WIRE_END_EXEC,
	WIRE_END_TASK_END, /* profiling stopped while the span was open ("unfinished") */
	WIRE_END_CUT,      /* the probes were taken off for a rest while it was open */
	WIRE_END_MAX
};

/* The end of a span; wall is the span's own split and adds up to h.mono_ns - start_ns exactly. */
struct wire_end {
	struct wire_header h;
	__u64 span_id; /* 0 in WIRE_K_SLOW: the span was not profiled */
	__u64 start_ns;
	struct wire_wall wall;
	__u32 ep_id;
	__u32 instance_id;
	__u16 reason; /* enum wire_end_reason */
	__u16 pad;
	__u32 n_due;  /* snapshots that were due: seq ran from 0 to n_due - 1 */
	__u32 n_lost; /* of those, not sent because the ring was full */
	__u32 name_bytes;
	__u8 name
		[WIRE_NAME_MAX]; /* fields read at leave, or at entry when none are read at leave */
};
_Static_assert(sizeof(struct wire_end) == 24 + 16 + 24 + 8 + 16 + 256, "wire_end");

struct wire_retsite {
	struct wire_header h;
	__u64 ret_addr;
	__u64 entry_ip;
	__u32 ep_id;
	__u32 as_id;
};
_Static_assert(sizeof(struct wire_retsite) == 48, "wire_retsite");

struct wire_proc {
	struct wire_header h; /* tgid: of the process that forked, called exec, or is gone */
	__u32 child_tgid;     /* WIRE_K_FORK */
	__u32 as_id;          /* of the child, or after exec */
	__u32 instance_id;
	__u32 exit_code; /* WIRE_K_EXIT: as wait(2) encodes it */
	__u64 exe_dev;   /* WIRE_K_EXEC: kernel dev_t (s_dev) and inode of the new executable */
	__u64 exe_ino;
	char comm[WIRE_COMM_MAX];
};
_Static_assert(sizeof(struct wire_proc) == 24 + 16 + 16 + 16, "wire_proc");

/*
 * Name and condition expressions: a program for a small register machine with an accumulator A and
 * four temporaries. It runs at entry (and a second one at leave). Captured fields are appended to
 * the span's name buffer, each as {__u8 type, __u8 pad, __u16 bytes, data padded to 8}; user space
 * joins them with literals. Reading memory that cannot be read captures a field of type
 * WIRE_FIELD_FAULT and goes on.
 */
enum wire_op_code {
	WIRE_OP_END,      /* stop */
	WIRE_OP_REG,      /* A = regs.r[arg] at the function's entry (or at leave) */
	WIRE_OP_IMM,      /* A = imm */
	WIRE_OP_ENTRY_IP, /* A = entry_ip + imm: globals of the same module */
	WIRE_OP_ADD_IMM,  /* A += imm */
	WIRE_OP_ADD,      /* A += T[arg] */
	WIRE_OP_SUB,      /* A = T[arg] - A */
	WIRE_OP_AND_IMM,  /* A &= imm */
	WIRE_OP_SHR_IMM,  /* A >>= imm */
	WIRE_OP_MUL_IMM,  /* A *= imm */
	WIRE_OP_DEREF,    /* A = load of `size` bytes at A: 1, 2, 4, 8, zero-extended */
	WIRE_OP_DEREF_S,  /* the same, sign-extended */
	WIRE_OP_SAVE,     /* T[arg] = A */
	WIRE_OP_LOAD,     /* A = T[arg] */
	WIRE_OP_KEEP,     /* value arg of the span = A, for use at leave */
	WIRE_OP_KEPT,     /* A = value arg of the span */
	WIRE_OP_STR,      /* capture the NUL-terminated string at A, at most imm bytes */
	WIRE_OP_STRN,     /* capture T[arg] bytes at A, at most imm bytes */
	WIRE_OP_INT,      /* capture A as a signed 64-bit number */
	WIRE_OP_UINT,     /* capture A as an unsigned 64-bit number */
	WIRE_OP_IF_EQ,    /* condition: drop the call unless A == imm */
	WIRE_OP_IF_NE,    /* condition: drop the call unless A != imm */
	WIRE_OP_IF_LT,    /* condition: drop the call unless (signed) A < imm */
	WIRE_OP_IF_GE,    /* condition: drop the call unless (signed) A >= imm */
	WIRE_OP_IF_PREFIX, /* condition: drop unless the imm bytes at A equal match[arg .. arg + imm) */
	WIRE_OP_SKIP_Z, /* skip the next arg operations when A == 0 */
	WIRE_OP_MAX
};

struct wire_op {
	__u8 code; /* enum wire_op_code */
	__u8 arg;
	__u8 size;
	__u8 pad[5];
	__s64 imm;
};
_Static_assert(sizeof(struct wire_op) == 16, "wire_op");

enum wire_field_type {
	WIRE_FIELD_STR = 1, /* bytes of text, not NUL-terminated */
	WIRE_FIELD_CUT,     /* the same, but it was longer than the limit */
	WIRE_FIELD_INT,
	WIRE_FIELD_UINT,
	WIRE_FIELD_FAULT, /* memory could not be read */
};

struct wire_field {
	__u8 type; /* enum wire_field_type */
	__u8 pad;
	__u16 bytes; /* of data, without padding */
	__u32 pad2;
	/* __u8 data[round_up(bytes, 8)] */
};
_Static_assert(sizeof(struct wire_field) == 8, "wire_field");

enum wire_ep_flag {
	WIRE_EP_F_BEGIN_IF_NONE =
		1 << 0,               /* a call while a span of this endpoint is open is ignored */
	WIRE_EP_F_END_PROBE = 1 << 1, /* it ends by an end function: no return sites */
	WIRE_EP_F_NAME_AT_LEAVE = 1 << 2, /* leave_ops read the name */
	WIRE_EP_F_HAS_OPS = 1 << 3,       /* entry_ops is not empty */
	WIRE_EP_F_END_OPS = 1 << 4,       /* end_ops hold the condition of the end probe */
	WIRE_EP_F_URETPROBE = 1 << 5,     /* it ends by a uretprobe: no return sites */
	WIRE_EP_F_KEYED = 1 << 6,         /* reserved: spans keyed by a pointer */
	WIRE_EP_F_PROBED_SLOT = 1 << 7, /* entry_ip = probe ip - site_off, and SP is as at entry */
	WIRE_EP_F_REPORT_SLOW =
		1 << 8,               /* WIRE_K_SLOW records for slow spans that are not profiled */
	WIRE_EP_F_RET_SITES = 1 << 9, /* its own returns are probed: no return sites are needed */
};

/* Configuration of one endpoint slot, index ep_id of the map `endpoints`. */
struct wire_endpoint {
	__u32 flags;    /* enum wire_ep_flag */
	__u32 site_off; /* bytes from the function's first byte to the probe site */
	__u32 n_entry_ops;
	__u32 n_leave_ops;
	struct wire_op entry_ops[WIRE_OPS_MAX];
	struct wire_op leave_ops[WIRE_OPS_MAX]; /* at leave, or the condition of the end probe */
	__u8 match[64];                         /* bytes that WIRE_OP_IF_PREFIX compares */
};

/*
 * Cookie of an attached probe. Entry and end sites carry their own distance from the function's
 * first byte, because two sites of one endpoint may differ. sp_slots: how many 8-byte slots SP is
 * below its value at the function's first instruction (a site after "sub $24, %rsp": 3), so that
 * entry_sp = SP + WIRE_COOKIE_SP(c).
 */
enum wire_probe_kind { WIRE_P_ENTER = 1, WIRE_P_LEAVE_SITE, WIRE_P_END, WIRE_P_URET, WIRE_P_RET };
#define WIRE_COOKIE(ep_id, sp_slots, site_off) \
	(((__u64)(site_off) << 32) | ((__u64)(sp_slots) << 16) | (__u16)(ep_id))
/* The probe is there for every process: those with own probes for the endpoint leave it alone. */
#define WIRE_COOKIE_F_WIDE 0x8000ULL
/* The slots are counted from RBP, not from SP: a place inside a function that has a frame pointer. */
#define WIRE_COOKIE_F_RBP 0x4000ULL
/* The instruction is single-stepped: the hit costs its program more. */
#define WIRE_COOKIE_F_DEAR 0x2000ULL
#define WIRE_COOKIE_EP(c)  ((__u32)((c)&0x1fff))
#define WIRE_COOKIE_SP(c)  ((((c) >> 16) & 0xffff) * 8)
#define WIRE_COOKIE_OFF(c) ((__u32)((c) >> 32))

/* Map `members`: tgid -> this. A process that is not there is never looked at. */
struct wire_member {
	__u32 instance_id;
	__u32 as_id; /* address space: shared by forked children until they call exec */
	__u32 flags; /* enum wire_member_flag */
	__u32 pad;
	__u64 own_eps; /* bit ep_id: entered and ended by probes of this process alone; not inherited */
};
enum wire_member_flag {
	WIRE_MEMBER_F_FOLLOW_FORK = 1 << 0, /* children become members in the kernel */
};

/* Map `watched`: executables whose processes become members at exec. */
struct wire_file_key {
	__u64 dev; /* kernel-internal s_dev: (major << 20) | minor */
	__u64 ino;
};

/* Map `return_sites`: call sites whose leave probe is attached (or that are known to be hopeless). */
struct wire_site_key {
	__u64 ret_addr;
	__u32 as_id;
	__u32 ep_id; /* 0: sites are shared by all endpoints */
};

/*
 * Value of `return_sites`, __u32: WIRE_SITE_STATE(value), and above the low byte, for REPORTED, the
 * time of the report in units of 2^24 ns, so that a busy call site is reported rarely. A leave site
 * fires after the call at ret_addr has returned; SP is then above entry_sp (by 8, or more when the
 * caller has popped arguments), never equal or below.
 */
enum wire_site_state {
	WIRE_SITE_ATTACHED = 1, /* the leave probe is in place: calls from here are timed */
	WIRE_SITE_HOPELESS,     /* no leave probe is possible: their end is not known */
	WIRE_SITE_REPORTED,     /* written by BPF: WIRE_K_RETSITE was sent */
};
#define WIRE_SITE_STATE(v) ((v)&0xff)

/*
 * Map `gates`: what may be profiled. {ep_id, instance_id} -> this. No entry: nothing is profiled.
 * The two counts are kept in the map `gate_counts`, so that changing a gate never loses them;
 * kern_gate_get joins the two.
 */
struct wire_gate_key {
	__u32 ep_id;
	__u32 instance_id;
};
struct wire_gate {
	__u64 threshold_ns;    /* a span is slow when it is older than this */
	__u64 sample_after_ns; /* snapshots start at this age: threshold_ns, or 0 with --from-start */
	__u64 period_ns;       /* dump period */
	__u32 max_spans;       /* 0: no limit */
	__u32 max_parallel;    /* 0: no limit */
	__u32 n_started;       /* written by BPF: spans that reached PROFILING */
	__u32 n_active;        /* written by BPF: of those, still open */
	__u32 enabled;
	__u32 pad;
};

/*
 * Latency histogram of one endpoint slot and instance-independent counts; map `latency`, a per-CPU
 * array. Buckets are logarithmic with 16 steps a doubling: for a duration d >= 16 ns the index is
 * (floor(log2 d) - 3) * 16 + ((d >> (floor(log2 d) - 4)) & 15), below that it is d itself.
 */
#define WIRE_HIST_SUB     16
#define WIRE_HIST_BUCKETS ((44 - 3) * WIRE_HIST_SUB) /* up to 2^44 ns: 4.9 hours */
struct wire_latency {
	__u64 n_enter; /* calls seen */
	__u64 n_leave; /* calls whose end was seen: the histogram's population */
	__u64 n_slow;  /* calls whose duration is above the threshold */
	__u64 n_unknown; /* calls whose end was not seen (return site not known, unwound, nested too deep) */
	__u64 n_unwound; /* of those, left by an exception or longjmp */
	__u64 n_threads; /* threads by which the slot was called, for whatever endpoint */
	__u64 sum_ns;
	__u64 max_ns;
	__u32 bucket[WIRE_HIST_BUCKETS];
};

/* Counters of what was given up or happened; per-CPU array `counters`. Names: src/model/counters.c. */
enum wire_counter {
	WIRE_C_RING_FULL_SNAPSHOT, /* snapshot not sent: ring full */
	WIRE_C_RING_FULL_PROMOTED, /* span not profiled: ring full */
	WIRE_C_RING_FULL_END,      /* end of a profiled span not sent: ring full */
	WIRE_C_RING_FULL_RETSITE,  /* call site not reported: ring full (it is reported again) */
	WIRE_C_RING_FULL_PROC,     /* fork, exec or exit not reported: ring full */
	WIRE_C_RING_FULL_SLOW,     /* slow span not reported: ring full */
	WIRE_C_NO_STORAGE,         /* no memory for a thread's state: the call is not seen */
	WIRE_C_NEST_LIMIT,         /* more open spans on a thread than are told apart */
	WIRE_C_NAMED_LIMIT,        /* slow span not profiled: too many outer spans on its thread */
	WIRE_C_PARALLEL_LIMIT,     /* slow span not profiled: --max-parallel */
	WIRE_C_SPAN_LIMIT,         /* slow span not profiled: --max-samples */
	WIRE_C_SLOW_UNSEEN,        /* slow span not profiled: over before anything looked at it */
	WIRE_C_WINDOW_FAULT,       /* window could not be read */
	WIRE_C_WINDOW_TRUNCATED,   /* window larger than the limit */
	WIRE_C_FOREIGN_STACK, /* SP outside the span's stack: coroutine or alternate signal stack */
	WIRE_C_NAME_FAULT,    /* part of a name could not be read */
	WIRE_C_NAME_TRUNCATED, /* name longer than the limit */
	WIRE_C_UNWOUND,        /* spans closed because SP was above their frame */
	WIRE_C_LEAVE_UNSEEN,   /* spans whose return site was not known in time */
	WIRE_C_RETSITE_NEW,    /* call sites reported */
	WIRE_C_CONDITION_SKIP, /* calls left out by the endpoint's condition */
	WIRE_C_NESTED_SKIP,    /* calls left out by "begin if none open" */
	WIRE_C_SHORT_WAIT,     /* off-CPU intervals merged into a later one */
	WIRE_C_WAKE_UNSEEN,    /* block without a wake-up: counted as blocked to its end */
	WIRE_C_SWITCH_UNSEEN,  /* wait whose end was not seen: it ends at the wake-up */
	WIRE_C_MEMBER_FULL,    /* forked or exec'ed process not followed: table full */
	WIRE_C_CALL_CUT,       /* call that was open when the probes were taken off for a rest */
	WIRE_C_PROBE_HIT,      /* function probes that were met, while they are counted */
	WIRE_C_PROBE_HIT_DEAR, /* of those, on instructions that are single-stepped */
	WIRE_C_MAX
};

#endif
