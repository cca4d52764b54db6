/*
 * What the law's files share, and nobody else includes
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef STEER_POLICY_LAW_H
#define STEER_POLICY_LAW_H

#include "policy.h"

#define NS_PER_MS INT64_C(1000000)
#define MIB UINT64_C(1048576)

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/* @value x @part / @whole without overflow, as long as the result fits */
static inline uint64_t law_scale(uint64_t value, uint64_t part, uint64_t whole)
{
    return value / whole * part + value % whole * part / whole;
}

/* Whether @ms have gone by since @since_ns, "never" being long ago */
static inline bool law_passed(int64_t now_ns, int64_t since_ns, uint32_t ms)
{
    return !since_ns || now_ns - since_ns >= ms * NS_PER_MS;
}

/* A delay for comparisons: without a request the guest does as WATCH */
static inline uint32_t law_effective_ms(const PolicyConfig *config, uint32_t ms)
{
    return ms == POLICY_DELAY_NONE ? config->watch_delay_ms : ms;
}

/* host.c: fills in all of @outcome that is about the host */
void law_host_step(const PolicyConfig *config, PolicyHost *host,
                   const PolicySample *sample, int64_t now_ns, PolicyOutcome *outcome);

/*
 * vm.c: one VM. Returns whether there is a command for it; it is not sent, and
 * counts for nothing, before law_vm_send(). @due_ns is lowered to when the VM
 * has to be looked at again.
 */
bool law_vm_step(const PolicyConfig *config, const PolicyHost *host, PolicyVm *vm,
                 const PolicySample *sample, size_t index, int64_t now_ns,
                 const PolicyOutcome *outcome, PolicyCommand *command, int64_t *due_ns);
void law_vm_send(PolicyVm *vm, PolicyCommand *command, int64_t now_ns);
/* The host relaxes: spread what lengthens */
void law_vm_jitter(const PolicyConfig *config, const PolicyHost *host, PolicyVm *vm,
                   int64_t now_ns);

/* account.c: what a new answer of the query says about churn and effect */
void law_vm_account(const PolicyConfig *config, PolicyVm *vm,
                    const PolicyVmSample *sample, int64_t now_ns);
void law_vm_effect_start(PolicyVm *vm, int64_t now_ns);
/* What a VM could return: host memory that its guest says it does not use */
uint64_t law_backlog_bytes(const PolicyVmSample *sample);

#endif /* STEER_POLICY_LAW_H */
