"""The guarded git child, mirrors, landings, follow-ups and the hunk tokenizer."""
