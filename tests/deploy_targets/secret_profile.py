"""A profile with credentials wherever a profile may have one."""

from __future__ import annotations

from typing import Final

SECRETS: Final = {
    "HF_TOKEN": "hf_" + "a" * 34,
    "STAGE_0_ENV_API_KEY": "first",
    "STAGE_1_ENV_API_KEY": "second",
    "CONNECTORS_STORE_EXTRA_PASSWORD": "pa$$word ${x}",
    "CONNECTORS_STORE_EXTRA_HOST": "redis://me:pw@host:1",
    "CONNECTORS_STORE_EXTRA_PIN_PASSWORD": "1234",
}
"""Variable → the value that the profile has for it."""

TEXT: Final = """\
pipeline: qwen3_tts
async_chunk: false
connectors:
  store:
    name: SharedMemoryConnector
    extra:
      password: 'pa$$word \\${x}'
      host: redis://me:pw@host:1
      pin_password: 1234
stages:
  - stage_id: 0
    devices: "0"
    output_connectors: {to_stage_1: store}
    env: {HF_TOKEN: hf_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa, API_KEY: first, PLAIN: 'a $b'}
  - stage_id: 1
    devices: "0"
    input_connectors: {from_stage_0: store}
    env: {HF_TOKEN: hf_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa, API_KEY: second}
"""
