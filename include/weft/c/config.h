// The C API: configuration. docs/configuration.md lists the variables.
#pragma once

#include <weft/c/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_config weft_config;

// Makes a configuration in which every setting has its default. The environment is not read.
WEFT_C_API weft_code weft_config_new(weft_config** config);
// Makes a configuration from the environment of this process, as the launcher has set it.
WEFT_C_API weft_code weft_config_from_environment(weft_config** config);
WEFT_C_API weft_code weft_config_free(weft_config* config);

// Sets the value of one variable, by its name in the environment: "WEFT_DEADLINE_MS", "5000".
WEFT_C_API weft_code weft_config_set(weft_config* config, const char* name, const char* value);
// The value of one variable. The caller frees *value with weft_string_free().
WEFT_C_API weft_code weft_config_get(const weft_config* config, const char* name, char** value);
// Checks that the settings agree with each other.
WEFT_C_API weft_code weft_config_check(const weft_config* config);

#ifdef __cplusplus
}
#endif
