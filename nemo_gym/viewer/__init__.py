"""Shows rollouts in a browser. The built page is in `page/`, its source in `viewer/`.

    runs        the runs below a folder, their files and state
    indexing    the columns of a file of rows, read once and then followed
    nodes       the machines of a run's gym, and what has happened to them
    equal_tasks the equal tasks of a run, one for its figures
    row_views   parts of a row for the page: its card, its tokens
    searching   text search over a file of rows
    filtering, exporting, single_file, notebook   the pages with chosen rows in one file, or in a cell of a notebook
    access      the token in the printed address, and the cookie that replaces it
    server      the routes
    serving     the program

No route changes anything. Rows are untrusted: they leave as JSON, and the page shows them as text.
"""
