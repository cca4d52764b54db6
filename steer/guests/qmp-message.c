/*
 * QMP as text: what is sent, and what comes back from a QEMU that is not
 * trusted
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <string.h>
#include <gio/gio.h>
#include <json-glib/json-glib.h>

#include "json-scan.h"
#include "qmp-message.h"

/* An error's text in our log, and no more of it. */
#define ERROR_TEXT_MAX 200

/* A type's name and a path are short; QEMU itself has no limit. */
#define QOM_NAME_MAX 64

static bool scan_id(const JsonMember *member, uint64_t *id)
{
    char text[21];

    if (!member->text || member->length >= sizeof(text)) {
        return false;
    }
    memcpy(text, member->text, member->length);
    text[member->length] = '\0';
    return g_ascii_string_to_unsigned(text, 10, 0, G_MAXUINT64, id, NULL);
}

void qmp_message_scan(const char *line, gsize length, QmpMessage *message)
{
    enum { GREETING, RETURN, ERROR, EVENT, DATA, ID, COUNT };
    JsonMember members[COUNT] = {
        [GREETING] = { .name = "QMP" }, [RETURN] = { .name = "return" },
        [ERROR] = { .name = "error" },  [EVENT] = { .name = "event" },
        [DATA] = { .name = "data" },    [ID] = { .name = "id" },
    };
    const JsonMember *body = NULL;

    memset(message, 0, sizeof(*message));
    if (!json_scan(line, length, members, COUNT)) {
        return;
    }
    message->has_id = scan_id(&members[ID], &message->id);
    if (members[RETURN].text) {
        message->kind = QMP_RETURN;
        body = &members[RETURN];
    } else if (members[ERROR].text) {
        message->kind = QMP_ERROR;
        body = &members[ERROR];
    } else if (members[EVENT].length > 2 && members[EVENT].text[0] == '"') {
        message->kind = QMP_EVENT;
        message->event = members[EVENT].text + 1;
        message->event_length = members[EVENT].length - 2;
        body = &members[DATA];
    } else if (members[GREETING].text) {
        message->kind = QMP_GREETING;
    }
    if (body) {
        message->body = body->text;
        message->body_length = body->length;
    }
}

bool qmp_message_is_event(const QmpMessage *message, const char *name)
{
    return message->kind == QMP_EVENT && message->event_length == strlen(name) &&
           memcmp(message->event, name, message->event_length) == 0;
}

char *qmp_format(const char *command, uint64_t id, const char *arguments)
{
    return g_strdup_printf("{\"execute\":\"%s\",\"id\":%" G_GUINT64_FORMAT "%s%s}\n",
                           command, id, arguments ? ",\"arguments\":" : "",
                           arguments ? arguments : "");
}

char *qmp_format_set(const GuestCommand *command)
{
    if (command->op == GUEST_OP_WITHDRAW) {
        return g_strdup("{}");
    }
    if (!command->lease_ms) {
        return g_strdup_printf("{\"delay-ms\":%u}", command->delay_ms);
    }
    return g_strdup_printf("{\"delay-ms\":%u,\"lease-ms\":%u}", command->delay_ms,
                           command->lease_ms);
}

static bool fail(GError **errp, const char *what, const char *member)
{
    g_set_error(errp, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, "'%s' %s", member, what);
    return false;
}

/* NULL unless it is an object.  The text has been through json_scan(). */
static JsonParser *parse_object(const char *body, gsize length, JsonObject **object)
{
    g_autoptr(JsonParser) parser = json_parser_new_immutable();
    JsonNode *root;

    if (!body || !json_parser_load_from_data(parser, body, length, NULL)) {
        return NULL;
    }
    root = json_parser_get_root(parser);
    if (!root || !JSON_NODE_HOLDS_OBJECT(root)) {
        return NULL;
    }
    *object = json_node_get_object(root);
    return g_steal_pointer(&parser);
}

static bool get_bool(JsonObject *object, const char *name, bool *value, GError **errp)
{
    JsonNode *node = json_object_get_member(object, name);

    if (!node || !JSON_NODE_HOLDS_VALUE(node) ||
        json_node_get_value_type(node) != G_TYPE_BOOLEAN) {
        return fail(errp, "is no boolean", name);
    }
    *value = json_node_get_boolean(node);
    return true;
}

/*
 * A count: what is beyond 63 bits json-glib reads as negative, from 1.10 on as
 * the largest value.
 */
static bool get_count(JsonObject *object, const char *name, uint64_t *value,
                      GError **errp)
{
    JsonNode *node = json_object_get_member(object, name);

    if (!node || !JSON_NODE_HOLDS_VALUE(node) ||
        json_node_get_value_type(node) != G_TYPE_INT64 || json_node_get_int(node) < 0 ||
        json_node_get_int(node) == G_MAXINT64) {
        return fail(errp, "is no count", name);
    }
    *value = json_node_get_int(node);
    return true;
}

/* An optional time in milliseconds; GUEST_NONE if absent. */
static bool get_ms(JsonObject *object, const char *name, uint32_t max, uint32_t *value,
                   GError **errp)
{
    uint64_t count;

    *value = GUEST_NONE;
    if (!json_object_has_member(object, name)) {
        return true;
    }
    if (!get_count(object, name, &count, errp)) {
        return false;
    }
    if (count > max) {
        return fail(errp, "is out of range", name);
    }
    *value = count;
    return true;
}

bool qmp_parse_info(const char *body, gsize length, GuestInfo *info, GError **errp)
{
    g_autoptr(JsonParser) parser = NULL;
    JsonObject *object;

    parser = parse_object(body, length, &object);
    if (!parser) {
        return fail(errp, "is no object", "return");
    }
    return get_bool(object, "offered", &info->offered, errp) &&
           get_bool(object, "negotiated", &info->negotiated, errp) &&
           get_bool(object, "inhibited", &info->inhibited, errp) &&
           get_ms(object, "requested-ms", GUEST_DELAY_MS_MAX, &info->requested_ms,
                  errp) &&
           get_ms(object, "applied-ms", GUEST_DELAY_MS_MAX, &info->applied_ms, errp) &&
           get_ms(object, "lease-left-ms", GUEST_LEASE_MS_MAX, &info->lease_left_ms,
                  errp) &&
           get_count(object, "reports", &info->reports, errp) &&
           get_count(object, "reported-bytes", &info->reported_bytes, errp) &&
           get_count(object, "discarded-bytes", &info->discarded_bytes, errp);
}

bool qmp_parse_applied(const char *body, gsize length, uint32_t *applied_ms,
                       uint32_t *requested_ms, GError **errp)
{
    g_autoptr(JsonParser) parser = NULL;
    JsonObject *object;

    parser = parse_object(body, length, &object);
    if (!parser) {
        return fail(errp, "is no object", "data");
    }
    if (!get_ms(object, "applied-ms", GUEST_DELAY_MS_MAX, applied_ms, errp) ||
        !get_ms(object, "requested-ms", GUEST_DELAY_MS_MAX, requested_ms, errp)) {
        return false;
    }
    return *applied_ms != GUEST_NONE || fail(errp, "is missing", "applied-ms");
}

bool qmp_parse_migrating(const char *body, gsize length, bool *migrating, GError **errp)
{
    /* A status that is not known counts as one under way. */
    static const char *const idle[] = { "none", "completed", "failed", "cancelled",
                                        NULL };
    g_autoptr(JsonParser) parser = NULL;
    JsonObject *object;
    JsonNode *node;

    /* What nearly all QEMUs say, a thousand of them in one tick. */
    if (body && length == 2 && memcmp(body, "{}", 2) == 0) {
        *migrating = false;
        return true;
    }
    parser = parse_object(body, length, &object);
    if (!parser) {
        return fail(errp, "is no object", "return");
    }
    node = json_object_get_member(object, "status");
    if (!node) {
        *migrating = false;
        return true;
    }
    if (!JSON_NODE_HOLDS_VALUE(node) || json_node_get_value_type(node) != G_TYPE_STRING) {
        return fail(errp, "is no string", "status");
    }
    *migrating = !g_strv_contains(idle, json_node_get_string(node));
    return true;
}

bool qmp_parse_used(const char *body, gsize length, uint64_t *used_bytes)
{
    g_autoptr(JsonParser) parser = NULL;
    JsonObject *object;
    JsonNode *node;
    uint64_t total, unused, updated;

    parser = parse_object(body, length, &object);
    if (!parser || !get_count(object, "last-update", &updated, NULL) || !updated) {
        return false;
    }
    node = json_object_get_member(object, "stats");
    if (!node || !JSON_NODE_HOLDS_OBJECT(node)) {
        return false;
    }
    object = json_node_get_object(node);
    if (!get_count(object, "stat-total-memory", &total, NULL) ||
        !get_count(object, "stat-free-memory", &unused, NULL) || unused > total) {
        return false;
    }
    *used_bytes = total - unused;
    return true;
}

static bool is_balloon(JsonNode *node, const char **name)
{
    static const char *const types[] = { "child<virtio-balloon-pci>",
                                         "child<virtio-balloon-ccw>",
                                         "child<virtio-balloon-device>",
                                         "child<virtio-balloon-pci-transitional>",
                                         "child<virtio-balloon-pci-non-transitional>",
                                         NULL };
    JsonObject *object;
    const char *type;

    if (!JSON_NODE_HOLDS_OBJECT(node)) {
        return false;
    }
    object = json_node_get_object(node);
    type = json_object_get_string_member_with_default(object, "type", NULL);
    *name = json_object_get_string_member_with_default(object, "name", NULL);
    return type && *name && g_strv_contains(types, type);
}

/* It is put into a command: what QEMU's ids consist of, and no more. */
static bool is_qom_name(const char *name)
{
    return *name && strlen(name) <= QOM_NAME_MAX &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                        "0123456789-._[]") == strlen(name);
}

char *qmp_parse_balloon(const char *body, gsize length)
{
    g_autoptr(JsonParser) parser = json_parser_new_immutable();
    JsonArray *array;
    JsonNode *root;

    if (!body || !json_parser_load_from_data(parser, body, length, NULL)) {
        return NULL;
    }
    root = json_parser_get_root(parser);
    if (!root || !JSON_NODE_HOLDS_ARRAY(root)) {
        return NULL;
    }
    array = json_node_get_array(root);
    for (guint i = 0; i < json_array_get_length(array); i++) {
        const char *name;

        if (is_balloon(json_array_get_element(array, i), &name) && is_qom_name(name)) {
            return g_strdup(name);
        }
    }
    return NULL;
}

char *qmp_parse_error(const char *body, gsize length)
{
    g_autoptr(JsonParser) parser = NULL;
    JsonObject *object;
    JsonNode *node = NULL;

    parser = parse_object(body, length, &object);
    if (parser) {
        node = json_object_get_member(object, "desc");
    }
    if (!node || !JSON_NODE_HOLDS_VALUE(node) ||
        json_node_get_value_type(node) != G_TYPE_STRING) {
        return g_strdup("an error without a description");
    }
    return qmp_printable(json_node_get_string(node), strlen(json_node_get_string(node)),
                         ERROR_TEXT_MAX);
}

char *qmp_printable(const char *text, gsize length, gsize max)
{
    char *copy = g_strndup(text, MIN(length, max));

    for (char *c = copy; *c; c++) {
        if (!g_ascii_isprint(*c)) {
            *c = '?';
        }
    }
    return copy;
}
