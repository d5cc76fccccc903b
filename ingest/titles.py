"""What a title says, as marks that name nobody: all that is kept of the title of an imported pull request."""

MARKS = ("default", "fix", "docs", "new", "code")
# A temporary macro: `title_says(title)` is the list of MARKS that hold, null where a title tells nothing that was known
# at opening. Of one word it may be the name of a branch, which follows from the outcome. `default` is what a web editor
# suggests: "Update FILE". English words alone are looked for; how well somebody writes is not.
TITLE_SAYS = r"""
create or replace temp macro title_says(title) as case when contains(trim(title), ' ') then list_filter([
  case when regexp_matches(trim(title), '(?i)^(update|create|delete|rename|add files via)\s+\S+(\s+\S+)?$')
    then 'default' end,
  case when regexp_matches(title, '(?i)\b(fix|fixes|fixed|bugs?|correct(s|ed)?)\b') then 'fix' end,
  case when regexp_matches(title, '(?i)\b(docs?|documentation|readme|typos?|spelling|grammar|links?)\b')
    then 'docs' end,
  case when regexp_matches(title,
    '(?i)\b(add|adds|added|supports?|feat|features?|implements?|allows?|introduces?|new)\b') then 'new' end,
  case when regexp_matches(title, '`|\(\)|_|\.\w') then 'code' end
], lambda mark: mark is not null) end
"""
