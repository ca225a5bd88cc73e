# tree-sitter and its Python grammar, from their PyPI source distributions: fetched once into
# TFR_DEPS_DIR, checked against the hashes below before anything in them runs, compiled as they are.
# The grammar's 0.25.0 lacks scanner.c; 0.23.6 has it, with the same external tokens.
set(TFR_DEPS_DIR "$ENV{TFR_DEPS_DIR}" CACHE PATH "Folder of the source distributions")
if(NOT TFR_DEPS_DIR)
    set(TFR_DEPS_DIR ${CMAKE_SOURCE_DIR}/build/deps)
endif()

function(tfr_fetch out name version sha256)
    string(REPLACE "-" "_" base "${name}-${version}")
    string(REGEX REPLACE "_([0-9.]+)$" "-\\1" base "${base}")
    set(file ${TFR_DEPS_DIR}/${base}.tar.gz)
    file(MAKE_DIRECTORY ${TFR_DEPS_DIR})
    file(LOCK ${TFR_DEPS_DIR}/lock GUARD FUNCTION TIMEOUT 600) # presets may configure at once
    if(NOT EXISTS ${file})
        find_package(Python3 3.10 REQUIRED COMPONENTS Interpreter)
        set(wanted ${CMAKE_BINARY_DIR}/${base}.txt)
        file(WRITE ${wanted} "${name}==${version} --hash=sha256:${sha256}\n")
        # pip asks a source distribution for its metadata after the download. Where the isolated
        # environment for that cannot be made, the setuptools at hand will do.
        foreach(isolation "" --no-build-isolation)
            execute_process(
                COMMAND ${Python3_EXECUTABLE} -m pip download --quiet --no-deps --require-hashes
                        --no-binary ${name} ${isolation} -d ${TFR_DEPS_DIR} -r ${wanted}
                RESULT_VARIABLE failed OUTPUT_VARIABLE log ERROR_VARIABLE log)
            if(EXISTS ${file})
                break()
            endif()
        endforeach()
        if(NOT EXISTS ${file})
            message(FATAL_ERROR "Could not fetch ${name} ${version} with pip:\n${log}\n"
                "Without a network: on another machine run\n"
                "  python3 -m pip download --no-deps --no-binary ${name} ${name}==${version}\n"
                "put ${base}.tar.gz into a folder, and configure with -DTFR_DEPS_DIR=FOLDER "
                "(or the environment variable TFR_DEPS_DIR).")
        endif()
    endif()
    file(SHA256 ${file} found)
    if(NOT found STREQUAL sha256)
        message(FATAL_ERROR "${file} has SHA-256 ${found}, expected ${sha256}: remove the file.")
    endif()
    set(folder ${CMAKE_BINARY_DIR}/third_party/${base})
    if(NOT EXISTS ${folder}/PKG-INFO)
        file(ARCHIVE_EXTRACT INPUT ${file} DESTINATION ${CMAKE_BINARY_DIR}/third_party)
    endif()
    set(${out} ${folder} PARENT_SCOPE)
endfunction()

tfr_fetch(core tree-sitter 0.26.0
    b40c219edccc4564530c96f8f1556f6202b37cda964d1cbd7bd2b7e68b40a245)
tfr_fetch(grammar tree-sitter-python 0.25.0
    b13e090f725f5b9c86aa455a268553c65cadf325471ad5b65cd29cac8a1a68ac)
tfr_fetch(scanner tree-sitter-python 0.23.6
    354bfa0a2f9217431764a631516f85173e9711af2c13dbd796a8815acfe505d9)

add_library(tree_sitter STATIC
    ${core}/tree_sitter/core/lib/src/lib.c ${grammar}/src/parser.c ${scanner}/src/scanner.c)
target_include_directories(tree_sitter SYSTEM
    PUBLIC ${core}/tree_sitter/core/lib/include
    PRIVATE ${core}/tree_sitter/core/lib/src ${grammar}/src)
target_compile_definitions(tree_sitter
    PRIVATE _POSIX_C_SOURCE=200112L _DEFAULT_SOURCE TREE_SITTER_HIDE_SYMBOLS)
target_compile_options(tree_sitter PRIVATE -w)
