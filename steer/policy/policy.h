/*
 * The control law of balloon-steer: plain data in, commands out
 *
 * policy_step() is a pure function of its arguments: no I/O, no clock, no
 * allocation, no global state. The caller owns every array. The daemon, its
 * --dry-run, simulate, the model and the tests link this same object.
 *
 * Units are in the names. Times are monotonic nanoseconds; 0 is "never", so
 * a clock that may read 0 has to be shifted by its owner. Sizes are bytes.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef STEER_POLICY_H
#define STEER_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* No request; not yet applied */
#define POLICY_DELAY_NONE UINT32_MAX
/* A size that nobody has told */
#define POLICY_BYTES_UNKNOWN UINT64_MAX
#define POLICY_DELAY_MS_MAX 600000
#define POLICY_LEASE_MS_MAX 3600000
#define POLICY_WEIGHT_DEFAULT 100
#define POLICY_WEIGHT_MAX 10000
/* A time to empty that is not in sight */
#define POLICY_TTE_MS_NEVER INT64_MAX

/* How short the host is, the shortest last */
typedef enum PolicyState {
    POLICY_CALM,
    POLICY_EASY,
    POLICY_WATCH,
    POLICY_TIGHT,
    POLICY_URGENT,
    POLICY_STATES
} PolicyState;

/* Why the host is in its state */
typedef enum PolicyReason {
    POLICY_REASON_START,     /* no sample seen yet */
    POLICY_REASON_AVAILABLE, /* usable memory is below the state's bound */
    POLICY_REASON_TTE,       /* it would last less than the state's time */
    POLICY_REASON_PSI_SOME,
    POLICY_REASON_PSI_FULL,
    POLICY_REASON_BLIND,   /* the host's memory could not be read */
    POLICY_REASON_RELAXED, /* one step down: everything has been quiet */
    POLICY_REASONS
} PolicyReason;

/* What keeps the host from going one step down */
typedef enum PolicyHold {
    POLICY_HOLD_NONE,      /* nothing, or CALM */
    POLICY_HOLD_CONDITION, /* what it was entered for is still so */
    POLICY_HOLD_TIME,      /* the hold is not over */
    POLICY_HOLD_HEADROOM,  /* usable memory within 1.25 x the bound */
    POLICY_HOLD_PSI,       /* a PSI event in the last 10 s */
    POLICY_HOLDS
} PolicyHold;

/* Why a VM is asked for what it is asked for */
typedef enum PolicyWhy {
    POLICY_WHY_STATE,          /* the host's state says so */
    POLICY_WHY_PINNED,         /* an operator's pin */
    POLICY_WHY_NO_EFFECT,      /* it returned too little: rests at WATCH */
    POLICY_WHY_MIGRATING,      /* held, not shortened */
    POLICY_WHY_STOPPING,       /* the daemon ends: withdrawn */
    POLICY_WHY_STEER_NO,       /* exempt: configuration */
    POLICY_WHY_UNREACHABLE,    /* exempt: no connection, or no answer yet */
    POLICY_WHY_NOT_OFFERED,    /* exempt: report-delay=off */
    POLICY_WHY_NOT_NEGOTIATED, /* exempt: not taken by the guest's driver */
    POLICY_WHY_INHIBITED,      /* exempt: discards are off */
    POLICY_WHY_OTHER_WRITER,   /* left alone: somebody else sets its delay */
    POLICY_WHY_TAKING_BACK,    /* withdrawn, waiting for the guest's answer */
    POLICY_WHY_BACK_OFF,       /* its last command failed or timed out */
    POLICY_WHYS
} PolicyWhy;

typedef enum PolicyMigration {
    POLICY_MIGRATION_NO,
    POLICY_MIGRATION_YES,
    POLICY_MIGRATION_UNKNOWN /* shortened only with .ask_migration set */
} PolicyMigration;

/* What became of the command .reply_serial */
typedef enum PolicyReply {
    POLICY_REPLY_NONE, /* nothing yet */
    POLICY_REPLY_OK,
    POLICY_REPLY_ERROR,    /* QEMU refused it */
    POLICY_REPLY_LOST,     /* the connection ended before an answer */
    POLICY_REPLY_MIGRATING /* not sent: ask_migration found a migration */
} PolicyReply;

typedef enum PolicyAction { POLICY_SET, POLICY_WITHDRAW } PolicyAction;

/*
 * Everything that may be configured. The key of each in a file, its default,
 * range and meaning are in policy_config_keys[].
 */
typedef struct PolicyConfig {
    uint32_t floor_mib; /* 0: computed from the watermarks */
    uint32_t floor_base_mib;
    uint32_t floor_base_ram_mib;
    uint32_t floor_ram_permille;
    uint32_t floor_watermark_percent;

    uint32_t easy_below_floor_percent;
    uint32_t watch_below_floor_percent;
    uint32_t tight_below_floor_percent;
    uint32_t urgent_below_floor_percent;
    uint32_t zero_below_floor_percent;
    uint32_t relax_above_percent;

    uint32_t tight_tte_ms;
    uint32_t urgent_tte_ms;
    uint32_t tte_average_ms;
    uint32_t discount_from_permille;
    uint32_t discount_to_permille;

    uint32_t calm_delay_ms; /* where a VM's calm delay starts */
    uint32_t calm_delay_min_ms;
    uint32_t calm_delay_max_ms;
    uint32_t easy_delay_ms;
    uint32_t watch_delay_ms;
    uint32_t tight_delay_ms;
    uint32_t urgent_delay_ms;
    uint32_t zero_delay_for_ms;

    uint32_t hold_ms;
    uint32_t hold_max_ms;
    uint32_t hold_window_ms;
    uint32_t psi_veto_ms;
    uint32_t jitter_ms;

    uint32_t churn_window_ms;
    uint32_t churn_percent;
    uint32_t churn_factor_percent;
    uint32_t calm_step_ms;
    uint32_t calm_quiet_ms;

    uint32_t no_effect_permille;
    uint32_t no_effect_mib;
    uint32_t no_effect_delays;
    uint32_t no_effect_rest_ms;

    uint32_t short_lease_ms;
    uint32_t long_lease_ms;
    uint32_t long_lease_from_ms;

    uint32_t other_writer_rest_ms;
    uint32_t take_back_wait_ms;

    uint32_t command_timeout_ms;
    uint32_t back_off_min_ms;
    uint32_t back_off_max_ms;
    uint32_t commands_per_s;

    uint32_t tick_min_ms;
    uint32_t tick_max_ms;
    uint32_t blind_grace_ms;
} PolicyConfig;

/* One field of PolicyConfig, for a parser, a man page and check-config */
typedef struct PolicyConfigKey {
    const char *key; /* as in a file: "urgent-delay-ms" */
    size_t offset;   /* of the uint32_t in PolicyConfig */
    uint32_t min, max, standard;
    const char *help; /* one line */
} PolicyConfigKey;

extern const PolicyConfigKey policy_config_keys[];
extern const size_t policy_config_keys_count;

/* What the daemon knows of one VM at this tick */
typedef struct PolicyVmSample {
    /*
     * Whether there is a connection, and the last answer of
     * query-balloon-report-delay. query_sent_ns is when that query was
     * *sent*, 0 before the first answer: an answer to a query sent before a
     * command says nothing about it. host_bytes and guest_used_bytes have to
     * be read when that answer arrives; what is read later is ignored until
     * the next answer, but for the order of commands.
     */
    bool connected;
    int64_t query_sent_ns;
    bool offered;
    bool negotiated;
    bool inhibited;
    uint32_t requested_ms;    /* or POLICY_DELAY_NONE */
    uint32_t applied_ms;      /* or POLICY_DELAY_NONE; the guest's word */
    uint64_t discarded_bytes; /* counter */

    uint64_t host_bytes;       /* of the QEMU process or its cgroup; trusted */
    uint64_t guest_used_bytes; /* a hint from the guest, never trusted */

    PolicyMigration migration;

    /* The last command that came to an end; 0 and NONE before the first */
    uint32_t reply_serial;
    PolicyReply reply;

    /* The operator's wishes */
    bool steer;            /* false: steer = no */
    uint32_t weight;       /* 1 to 10000, 0 means 100 */
    uint32_t pin_ms;       /* in force while now < pin_until_ns */
    int64_t pin_until_ns;  /* 0: no pin; INT64_MAX: until unpinned */
    uint32_t min_delay_ms; /* bounds of this VM, but for a pin */
    uint32_t max_delay_ms; /* 0: none */
} PolicyVmSample;

/* What the daemon knows of the host at this tick */
typedef struct PolicySample {
    bool readable;                 /* false: the four sizes below are not known */
    uint64_t ram_bytes;            /* MemTotal */
    uint64_t available_bytes;      /* MemAvailable */
    uint64_t free_bytes;           /* MemFree */
    uint64_t high_watermark_bytes; /* sum of all zones' "high" */

    bool psi;                 /* false: no PSI on this host */
    uint32_t psi_some_events; /* trigger events since the last step */
    uint32_t psi_full_events;
    uint32_t psi_some_permille; /* of the last second or so, from total= */

    bool stopping; /* withdraw everything */

    const PolicyVmSample *vms; /* parallel to the PolicyVm array */
    size_t vm_count;
} PolicySample;

/* A VM's state between steps. Made by policy_vm_init(), read by all, written
 * by policy_step() alone. */
typedef struct PolicyVm {
    uint64_t id; /* of the VM, the same whatever its index */

    /* What QEMU holds of ours, if sure */
    bool sure;
    uint32_t asked_ms;   /* or POLICY_DELAY_NONE */
    int64_t asked_ns;    /* when the command was sent */
    int64_t answered_ns; /* when its answer was seen */
    uint32_t lease_ms;

    /* The command in flight; serial is the last one given, also if done */
    bool in_flight;
    bool late; /* timed out; its answer may still come */
    uint32_t serial;
    uint32_t flight_ms;
    uint32_t flight_lease_ms;
    int64_t flight_ns;
    uint32_t back_off_ms;
    int64_t retry_ns;

    /* Another writer */
    PolicyWhy phase; /* STATE, OTHER_WRITER or TAKING_BACK */
    int64_t phase_ns;
    bool withdrawn; /* TAKING_BACK: QEMU has taken the withdrawal */

    /* No effect */
    int64_t effect_ns; /* the query that the count started at, or 0 */
    uint64_t effect_bytes;
    int64_t rest_until_ns;
    uint64_t rest_bytes; /* discarded_bytes when the rest began */
    uint64_t rest_backlog_bytes;

    /* Churn and the calm delay */
    uint32_t calm_delay_ms;
    int64_t query_ns; /* the last query that was counted */
    uint64_t discarded_bytes;
    uint64_t host_bytes;
    bool drained;               /* the first drain, left out, is over */
    uint64_t drain_millidelays; /* how long it has been going on */
    uint64_t pool_bytes[2];     /* discarded lately, not faulted in again */
    int64_t pool_ns;
    uint64_t window_discarded_bytes;
    uint64_t window_churned_bytes;
    int64_t window_ns;
    uint32_t churn_permille; /* of the last window that had something */
    int64_t quiet_ns;

    int64_t lengthen_ns; /* jitter: not lengthened before */

    /* For explain, status and metrics */
    PolicyWhy why;
    uint32_t wanted_ms; /* or POLICY_DELAY_NONE */
    uint64_t backlog_bytes;
    uint64_t churned_total_bytes;
} PolicyVm;

/* The host's state between steps */
typedef struct PolicyHost {
    uint64_t seed;
    bool started;
    PolicyState state;
    PolicyReason reason;
    bool exhausted; /* every steered VM is without effect */
    int64_t entered_ns;
    int64_t confirmed_ns; /* when a condition of the state last held */
    int64_t psi_ns;       /* the last PSI event */
    int64_t readable_ns;  /* when the host's memory was last read */
    uint32_t hold_ms;     /* as it is now, hold_ms to hold_max_ms */
    int64_t hold_changed_ns;
    int64_t urgent_ns[3]; /* the last entries, newest first */
    int64_t zero_ns;      /* when delay 0 began, 0: not in this URGENT */
    uint32_t downs;       /* steps down, also the jitter's nonce */
    uint32_t ups;

    int64_t last_ns; /* of the last readable sample */
    uint64_t last_available_bytes;
    double fall_bytes_per_s; /* moving average, negative while it rises */

    double tokens;
    size_t burst;
    int64_t tokens_ns;
} PolicyHost;

/* In order of sending */
typedef struct PolicyCommand {
    size_t vm; /* index into the arrays */
    uint64_t id;
    uint32_t serial; /* to come back as .reply_serial */
    PolicyAction action;
    uint32_t delay_ms; /* POLICY_DELAY_NONE with WITHDRAW */
    uint32_t lease_ms; /* 0 with WITHDRAW */
    PolicyWhy why;
    bool renewal;       /* the same value for another lease */
    bool ask_migration; /* query-migrate first; if it migrates do not
                           send, and reply POLICY_REPLY_MIGRATING */
    /* The law's own */
    uint32_t rank;
    uint64_t key;
} PolicyCommand;

/* What a step found, for log, metrics and explain */
typedef struct PolicyOutcome {
    PolicyState state;
    PolicyState from; /* the state before this step */
    PolicyReason reason;
    PolicyHold held_by;
    bool exhausted;
    bool exhausted_changed;
    uint64_t usable_bytes; /* A */
    uint64_t floor_bytes;  /* F */
    int64_t tte_ms;        /* or POLICY_TTE_MS_NEVER */
    uint32_t hold_ms;
    int64_t hold_left_ms; /* of the time alone */
    uint32_t delay_ms;    /* of the state; in CALM where VMs start */
    size_t steered;       /* VMs that follow the host's state */
    size_t commands;
    size_t postponed; /* commands that the token bucket put off */
    int64_t next_ns;  /* step again then, or at a PSI event */
} PolicyOutcome;

/* The standard values of STEERING.md */
void policy_config_init(PolicyConfig *config);

/*
 * Whether a configuration makes sense. If not, @message (of @size bytes) names
 * the key, its value and what is allowed.
 */
bool policy_config_check(const PolicyConfig *config, char *message, size_t size);

/* @seed: of the jitter; any value */
void policy_host_init(PolicyHost *host, const PolicyConfig *config, uint64_t seed);

/* @id: a hash of the VM's name or UUID: no two alike, and stable */
void policy_vm_init(PolicyVm *vm, const PolicyConfig *config, uint64_t id);

/* F: what a host needs to itself */
uint64_t policy_floor_bytes(const PolicyConfig *config, const PolicySample *sample);

/* A: available memory, less the cache that is being fought over */
uint64_t policy_usable_bytes(const PolicyConfig *config, const PolicySample *sample);

/*
 * One step of the law.
 * @vms: sample->vm_count states, parallel to sample->vms. A VM that comes
 *       gets a new state; one that goes takes its state along. The order is
 *       of no consequence and may change between steps.
 * @now_ns: > 0, never less than at the last step
 * @commands: room for sample->vm_count
 * Returns how many commands there are. Each counts as sent at @now_ns, so they
 * have to be sent, or their failure told by .reply_serial and .reply.
 */
size_t policy_step(const PolicyConfig *config, PolicyHost *host, PolicyVm *vms,
                   const PolicySample *sample, int64_t now_ns, PolicyCommand *commands,
                   PolicyOutcome *outcome);

/*
 * How old the answer of query-balloon-report-delay may be while the host is
 * in @state. More often does no harm.
 */
uint32_t policy_query_interval_ms(const PolicyConfig *config, PolicyState state);

/* "CALM", "available", "hold", "no effect": for people and metrics */
const char *policy_state_name(PolicyState state);
const char *policy_reason_name(PolicyReason reason);
const char *policy_hold_name(PolicyHold hold);
const char *policy_why_name(PolicyWhy why);

#endif /* STEER_POLICY_H */
