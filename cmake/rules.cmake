# The built-in rule files, the table of spellings and the activations as data in the program:
# rewriter/builtin_rules.h says how they look in C, cmake/embed_rules.c writes them.
file(GLOB TFR_RULE_FILES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/rewriter/rules/*.py)
list(FILTER TFR_RULE_FILES EXCLUDE REGEX "/__init__\\.py$")
set(rule_tables ${CMAKE_SOURCE_DIR}/rewriter/canon.py ${CMAKE_SOURCE_DIR}/rewriter/acts.py)
set(TFR_RULES_C ${CMAKE_BINARY_DIR}/builtin_rules.c)
file(GLOB parser_sources CONFIGURE_DEPENDS parser/*.c)
add_executable(embed_rules cmake/embed_rules.c runtime/arena.c runtime/error.c runtime/utf8.c ${parser_sources})
target_include_directories(embed_rules PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(embed_rules PRIVATE tree_sitter tfr_warnings)
add_custom_command(OUTPUT ${TFR_RULES_C}
    COMMAND embed_rules ${TFR_RULES_C} ${rule_tables} ${TFR_RULE_FILES}
    DEPENDS embed_rules ${TFR_RULE_FILES} ${rule_tables}
    COMMENT "Embedding the rule files" VERBATIM)
