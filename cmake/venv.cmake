# TFR_PYTHON: the Python that runs tests, demo and benchmarks. Unless it is given, the target `venv`
# makes one in build/venv/, named after the hash of tests/requirements.txt and shared by all presets.
set(TFR_PYTHON "$ENV{TFR_PYTHON}" CACHE FILEPATH
    "Python with tests/requirements.txt installed; empty: the build makes one")
set(requirements ${CMAKE_SOURCE_DIR}/tests/requirements.txt)
if(TFR_PYTHON)
    set(python ${TFR_PYTHON})
    add_custom_target(venv)
else()
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${requirements})
    file(SHA256 ${requirements} hash)
    string(SUBSTRING ${hash} 0 12 hash)
    set(folder ${CMAKE_SOURCE_DIR}/build/venv/${hash})
    set(python ${folder}/bin/python)
    find_package(Python3 3.10 REQUIRED COMPONENTS Interpreter)
    add_custom_command(OUTPUT ${folder}/ready
        COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/scripts/make_venv.py ${folder}
                ${requirements}
        COMMENT "Making the Python environment ${folder} (once; torch is large)"
        USES_TERMINAL VERBATIM)
    add_custom_target(venv DEPENDS ${folder}/ready)
endif()

file(WRITE ${CMAKE_BINARY_DIR}/python.txt "${python}\n") # for scripts: which Python that is

# What our Python needs to find the built program and the package in the work tree.
set(TFR_PYTHON_ENV TFR_BIN=$<TARGET_FILE:tfrewrite>
    TFR_LIB=$<TARGET_FILE:tfrewrite_library> TFR_PYTHON=${python}
    PYTHONPATH=${CMAKE_SOURCE_DIR}/python PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1
    TFR_CACHE_DIR=${CMAKE_BINARY_DIR}/cache)
set(TFR_PYTHON_RUN ${CMAKE_COMMAND} -E env ${TFR_PYTHON_ENV} ${python})
