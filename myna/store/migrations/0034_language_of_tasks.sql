-- Serves builds of schema 31 and later.
-- The language of a task's text, such as zh-CN; '' for the voice's.
ALTER TABLE tasks ADD COLUMN language text NOT NULL DEFAULT '';
