# The kernel templates, twice: as text in the program, from which jit/ makes specialised kernels, and
# compiled as they are, the generic builds that run when there is no compiler (runtime/generic.h).
# CUDA templates (.cu) are text only.
file(GLOB TFR_TEMPLATE_HEADERS CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/codegen_templates/*.h)
file(GLOB TFR_TEMPLATES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/codegen_templates/*.c)
file(GLOB TFR_CUDA_TEMPLATES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/codegen_templates/*.cu)
set(TFR_EMBEDDED ${TFR_TEMPLATE_HEADERS} ${TFR_TEMPLATES} ${TFR_CUDA_TEMPLATES})

set(TFR_TEMPLATES_C ${CMAKE_BINARY_DIR}/templates.c)
add_executable(embed_templates cmake/embed_templates.c runtime/arena.c)
target_include_directories(embed_templates PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(embed_templates PRIVATE tfr_warnings)
add_custom_command(OUTPUT ${TFR_TEMPLATES_C}
    COMMAND embed_templates ${TFR_TEMPLATES_C} ${TFR_EMBEDDED}
    DEPENDS embed_templates ${TFR_EMBEDDED}
    COMMENT "Embedding the kernel templates" VERBATIM)

# -O3 in every configuration: these are the kernels. No -ffast-math, which would turn denormals
# off for the whole process at load. -Wno-psabi: gcc remarks on wide vectors even where every function is inlined.
set(kernel_flags -O3 -std=gnu11 -ffp-contract=off -fno-math-errno -fno-trapping-math -Wno-psabi)
if(TFR_SANITIZE) # several times the work, and nothing loads a sanitised library (tests/CMakeLists.txt)
    list(APPEND kernel_flags -fno-sanitize=all)
endif()
set(isas baseline)
set(baseline_flags "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
    list(APPEND isas avx2)
    set(avx2_flags -mavx2 -mfma -mf16c -mbmi2)
endif()

set(declarations "")
foreach(isa IN LISTS isas)
    set(rows "")
    foreach(template IN LISTS TFR_TEMPLATES)
        get_filename_component(name ${template} NAME_WE)
        set(source ${CMAKE_BINARY_DIR}/generic/${name}_${isa}.c)
        file(CONFIGURE OUTPUT ${source} CONTENT
            "#define TFR_KERNEL_SYMBOL tfr_generic_${name}_${isa}\n#include \"${template}\"\n")
        set_source_files_properties(${source} PROPERTIES
            COMPILE_OPTIONS "${kernel_flags};${${isa}_flags}"
            OBJECT_DEPENDS "${TFR_TEMPLATE_HEADERS};${template}")
        list(APPEND generic_sources ${source})
        string(APPEND declarations "extern const tfr_kernel tfr_generic_${name}_${isa};\n")
        string(APPEND rows "    {\"${name}.c\", &tfr_generic_${name}_${isa}},\n")
    endforeach()
    string(APPEND tables "static const row ${isa}_rows[] = {\n${rows}    {NULL, NULL}};\n")
endforeach()
list(GET isas -1 best)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generic/table.c CONTENT
"// Written by cmake/kernels.cmake.
#include \"runtime/generic.h\"

#include <stddef.h>
#include <string.h>

${declarations}
typedef struct row {
    const char *name;
    const tfr_kernel *kernel;
} row;
${tables}
const tfr_kernel *tfr_generic_find(const char *name, bool avx2) {
    for (const row *r = avx2 ? ${best}_rows : baseline_rows; r->name; r++)
        if (strcmp(r->name, name) == 0)
            return r->kernel;
    return NULL;
}
")
add_library(tfr_generic OBJECT ${generic_sources} ${CMAKE_BINARY_DIR}/generic/table.c)
target_include_directories(tfr_generic PRIVATE ${CMAKE_SOURCE_DIR})

file(GLOB jit_sources CONFIGURE_DEPENDS jit/*.c)
add_library(tfr_jit STATIC ${jit_sources} ${TFR_TEMPLATES_C} runtime/arena.c runtime/error.c
            runtime/utf8.c)
target_include_directories(tfr_jit PUBLIC ${CMAKE_SOURCE_DIR})
find_package(Threads REQUIRED)
target_link_libraries(tfr_jit PUBLIC Threads::Threads ${CMAKE_DL_LIBS}
                      PRIVATE $<BUILD_INTERFACE:tfr_warnings>)

# The library that Python, torch and C programs load: everything but the command line. Errors of
# torch pass through its frames as C++ exceptions.
file(GLOB runtime_sources CONFIGURE_DEPENDS runtime/*.c)
list(FILTER runtime_sources EXCLUDE REGEX "/(arena|error|utf8)\\.c$")
add_library(tfrewrite_library SHARED ${runtime_sources} $<TARGET_OBJECTS:tfr_generic>)
set_target_properties(tfrewrite_library PROPERTIES OUTPUT_NAME tfrewrite)
target_compile_options(tfrewrite_library PRIVATE -fexceptions)
target_compile_definitions(tfrewrite_library PRIVATE TFR_VERSION="${PROJECT_VERSION}")
# It has a background thread and handlers of exit and fork: dlclose must never unload it.
target_link_options(tfrewrite_library PRIVATE -Wl,--exclude-libs,ALL -Wl,-z,nodelete)
target_link_libraries(tfrewrite_library PRIVATE tfr_core tfr_jit
                      $<BUILD_INTERFACE:tfr_warnings>)
