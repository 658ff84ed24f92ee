"""Exports: scored rollouts in the file formats that trainers read (`ng_export`, docs/export.md).

An export streams: only the groups whose rows are not all read yet are in memory. Failed and masked rollouts are in no
row and in no baseline. Every rollout that was read is counted as exported or as left out for a named reason. The room
builds on `rollouts` (files and identities), `tokens` (segments) and `responses` (chat messages).

- `exporting`: `export(settings) -> Report`; `settings`: the keys of `ng_export`
- `report`: the counts, the reasons for leaving rollouts out, and the losses
- `sft`, `dpo`, `kto`, `grpo`, `nemo_rl`, `verl`, `agent_tunix`, `prime_rl`, `sharegpt`, `openai`: one format each
"""
